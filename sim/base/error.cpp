// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace moesim {
namespace {

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& d : diagnostics) text += d.str();
  return text;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Diagnostic::str() const {
  std::string text = file;
  if (line > 0) text += fmt::format(":{}", line);
  if (line > 0 && column > 0) text += fmt::format(":{}", column);
  if (!text.empty()) text += ": ";
  text += severity == Severity::error ? "error: " : "warning: ";
  text += message + "\n";
  if (!source_line.empty()) {
    text += "  " + source_line + "\n";
    if (column > 0) text += "  " + std::string(static_cast<std::size_t>(column - 1), ' ') + "^\n";
  }
  if (!hint.empty()) text += "hint: " + hint + "\n";
  return text;
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
  std::string best;
  int best_distance = static_cast<int>(std::max<std::size_t>(1, word.size() / 3)) + 1;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
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
