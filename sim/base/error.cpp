// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <utility>

#include "sim/base/lower_case.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& d : diagnostics) text += d.str();
  return text;
}

/// Only letters and digits, as names are remembered.
std::string bare(std::string_view text) {
  std::string result;
  for (const char c : lower_case(text)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) result += c;
  }
  return result;
}

/// Longer words are not misspelt names; the time for one grows with its length.
constexpr std::size_t longest_name = 256;

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment), of
/// names that are not too long.
int edit_distance(std::string_view a, std::string_view b) {
  using Row = std::array<int, longest_name + 1>;
  Row rows[3] = {};
  Row *before_last = &rows[0], *last = &rows[1], *row = &rows[2];
  std::iota(row->begin(), row->end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    (*row)[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitute = (*last)[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      (*row)[j] = std::min({substitute, (*last)[j] + 1, (*row)[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        (*row)[j] = std::min((*row)[j], (*before_last)[j - 2] + 1);
      }
    }
  }
  return (*row)[b.size()];
}

/// How often a text has each byte.
using Letters = std::array<int, 256>;

Letters letters_of(std::string_view text) {
  Letters counts{};
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  return counts;
}

/// At most their edit distance, in linear time: each edit changes one letter at most, in a text of
/// as many letters as the longer one, and swaps change none.
int least_distance(Letters of_a, std::string_view a, std::string_view b) {
  std::size_t common = 0;
  for (const char c : b) common += of_a[static_cast<unsigned char>(c)]-- > 0 ? 1 : 0;
  return static_cast<int>(std::max(a.size(), b.size()) - common);
}

/// "policies" -> "policy", "traces" -> "trace".
std::string singular(const std::string& word) {
  if (word.ends_with("ies")) return word.substr(0, word.size() - 3) + "y";
  return word.ends_with('s') ? word.substr(0, word.size() - 1) : word;
}

/// Whether the one is the other and something more, as h200-sxm is h200.
bool begins_with_name(const std::string& longer, const std::string& shorter) {
  return longer.starts_with(shorter + '-');
}

/// Finds a candidate that no slip of the fingers leads to: the singular, or the same with a
/// variant.
std::string related(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  for (const std::string& candidate : candidates) {
    const std::string known = lower_case(candidate);
    if (known == singular(word)) return candidate;
    const bool variant = begins_with_name(word, known) || begins_with_name(known, word);
    if (variant && (best.empty() || candidate.size() < best.size())) best = candidate;
  }
  // The longest part tells most: 1f1b-interleaved is interleaved rather than 1f1b.
  constexpr std::size_t least_part = 4;
  for (const std::string& candidate : candidates) {
    const bool ends = word.ends_with('-' + lower_case(candidate));
    const bool of_word = best.empty() || begins_with_name(word, lower_case(best));
    const std::size_t told = std::max(best.size() + 1, least_part);
    if (ends && of_word && candidate.size() >= told) return candidate;
  }
  return best;
}

/// Candidates that have the whole word in them, unless they are too many to tell it.
std::vector<std::string> with_word(const std::string& word,
                                   const std::vector<std::string>& candidates) {
  constexpr std::size_t least_word = 3, most = 4;
  std::vector<std::string> found;
  if (word.size() < least_word) return found;
  for (const std::string& candidate : candidates) {
    if (lower_case(candidate).find(word) != std::string::npos) found.push_back(candidate);
  }
  return found.size() > most ? std::vector<std::string>{} : found;
}

/// A source line and the caret below it. For a long line only what is near the caret is shown.
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
  if (word.size() > longest_name) return best;
  Distance least{static_cast<int>(std::max<std::size_t>(1, word.size() / 3)) + 1, 0};
  const std::string lower_word = lower_case(word);
  const Letters word_letters = letters_of(lower_word);
  for (const auto& candidate : candidates) {
    const auto longer = std::max(word.size(), candidate.size());
    const auto shorter = std::min(word.size(), candidate.size());
    if (longer > longest_name || static_cast<int>(longer - shorter) > least.first) continue;
    const std::string lower_candidate = lower_case(candidate);
    if (least_distance(word_letters, lower_word, lower_candidate) > least.first) continue;
    const int letters = edit_distance(lower_word, lower_candidate);
    if (letters > least.first) continue;
    const Distance distance{letters, edit_distance(word, candidate)};
    if (distance < least) best = candidate, least = distance;
  }
  const std::string variant = related(lower_word, candidates);
  // h200-sxm is an h200 rather than a misspelt h100-sxm, and nccl an nccl-p2p rather than a uccl.
  const bool longer =
      begins_with_name(lower_word, lower_case(variant)) && !best.starts_with(variant);
  const bool other = longer || begins_with_name(lower_case(variant), lower_word);
  return best.empty() || (least.first > 0 && other) ? variant : best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  const std::string lower_word = lower_case(word);
  const auto whole = with_word(lower_word, candidates);
  if (!whole.empty() && lower_case(best).find(lower_word) == std::string::npos) {
    return fmt::format("did you mean '{}'? Known: {}", fmt::join(whole, "' or '"),
                       fmt::join(candidates, ", "));
  }
  if (!best.empty()) {
    std::vector<std::string> alike;
    for (const std::string& candidate : candidates) {
      const bool variant = begins_with_name(lower_case(candidate), lower_case(std::string(word)));
      if (variant || bare(candidate) == bare(best)) alike.push_back(candidate);
    }
    if (alike.size() < 2) return fmt::format("did you mean '{}'?", best);
    return fmt::format("did you mean '{}'? They are different things: see moesim list",
                       fmt::join(alike, "' or '"));
  }
  if (candidates.empty()) return "";
  return fmt::format("known: {}", fmt::join(candidates, ", "));
}

}  // namespace moesim
