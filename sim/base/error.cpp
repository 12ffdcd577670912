// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "sim/base/text.h"

namespace moesim {
namespace {

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& d : diagnostics) text += d.str();
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int substitute = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({substitute, d[i - 1][j] + 1, d[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

/// A source line and the caret below it. Of a long line only what is near the caret is shown.
std::string with_caret(std::string line, int column) {
  constexpr std::size_t widest = 160;
  std::size_t before = column > 0 ? static_cast<std::size_t>(column - 1) : 0;
  if (line.size() > widest) {
    std::size_t begin = before > widest / 2 ? before - widest / 2 : 0;
    const auto inside = [&](std::size_t at) {  // of a UTF-8 sequence
      return at < line.size() && (static_cast<unsigned char>(line[at]) & 0xc0) == 0x80;
    };
    while (begin > 0 && inside(begin)) --begin;
    std::size_t end = begin + widest;
    while (inside(end)) ++end;
    const bool cut = end < line.size();
    line = (begin > 0 ? "..." : "") + line.substr(begin, end - begin) + (cut ? "..." : "");
    before = before - std::min(begin, before) + (begin > 0 ? 3 : 0);
  }
  std::string text = "  " + line + "\n";
  if (column > 0) text += "  " + std::string(before, ' ') + "^\n";
  return text;
}

}  // namespace

std::string Diagnostic::str() const {
  std::string text = file;
  if (line > 0) text += fmt::format(":{}", line);
  if (line > 0 && column > 0) text += fmt::format(":{}", column);
  if (!text.empty()) text += ": ";
  text += severity == Severity::error ? "error: " : "warning: ";
  text += message + "\n";
  if (!source_line.empty()) text += with_caret(source_line, column);
  if (!hint.empty()) text += "hint: " + hint + "\n";
  return printable(text);
}

Error::Error(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join(diagnostics)), diagnostics_(std::move(diagnostics)) {}

Error::Error(std::string message, std::string hint)
    : Error(std::vector<Diagnostic>{
          {Severity::error, "", 0, 0, std::move(message), "", std::move(hint)}}) {}

Error error_in(const std::string& file, std::string message, std::string hint, int line) {
  return Error(std::vector<Diagnostic>{
      {Severity::error, file, line, 0, std::move(message), "", std::move(hint)}});
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  using Distance = std::pair<int, int>;  // of the letters in lower case, then of the text as it is
  std::string best;
  Distance least{static_cast<int>(std::max<std::size_t>(1, word.size() / 3)) + 1, 0};
  for (const auto& candidate : candidates) {
    const Distance distance{edit_distance(lower(word), lower(candidate)),
                            edit_distance(word, candidate)};
    if (distance < least) best = candidate, least = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  if (!best.empty()) return fmt::format("did you mean '{}'?", best);
  if (candidates.empty()) return "";
  return fmt::format("known: {}", fmt::join(candidates, ", "));
}

}  // namespace moesim
