// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <regex>

#include "sim/base/units.h"

namespace moesim {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The reason without numbers, their units and what is in parentheses. Names in quotes stay.
std::string pattern_of(const std::string& reason) {
  static const std::regex unit(R"(^ [kMGTP]?i?B\b)");
  std::string pattern;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < reason.size(); ++i) {
    const char c = reason[i];
    if (!quoted && c == '(') ++depth;
    if (!quoted && c == ')') --depth;
    if (depth > 0) continue;
    // An apostrophe within a word opens no name.
    if (c == '\'' && (quoted || i == 0 || !is_word(reason[i - 1]))) quoted = !quoted;
    const bool starts = std::isdigit(static_cast<unsigned char>(c)) != 0 && !quoted &&
                        (i == 0 || (!is_word(reason[i - 1]) && reason[i - 1] != '-'));
    if (!starts) {
      pattern += c;
      continue;
    }
    pattern += '#';
    while (i + 1 < reason.size() && (is_word(reason[i + 1]) || reason[i + 1] == '.')) ++i;
    std::smatch found;
    const auto rest = reason.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    if (std::regex_search(rest, reason.end(), found, unit)) {
      i += static_cast<std::size_t>(found.length());
    }
  }
  return pattern;
}

/// Of memory that a candidate lacks, so that of two reasons the nearer one is told.
double shortfall_of(const std::string& reason) {
  static const std::regex lacks(R"(([0-9.]+) ([kMGTP]?)B too much)");
  std::smatch found;
  if (!std::regex_search(reason, found, lacks)) return std::numeric_limits<double>::infinity();
  double bytes = std::stod(found[1].str());
  for (const char prefix : {'k', 'M', 'G', 'T', 'P'}) {
    if (found[2].length() == 0) break;
    bytes *= 1000;
    if (found[2].str()[0] == prefix) break;
  }
  return bytes;
}

}  // namespace

std::string SharedReason::text() const {
  return fmt::format("{} cannot be{}: {}", count, varies ? ", such as" : "", example);
}

std::vector<SharedReason> shared_reasons(const std::map<std::int64_t, SweepRow>& rows) {
  std::map<std::string, SharedReason> by_pattern;
  for (const auto& [id, row] : rows) {
    if (row.reason.empty()) continue;
    SharedReason& shared = by_pattern[pattern_of(row.reason)];
    if (shared.count > 0) shared.varies |= shared.example != row.reason;
    if (shared.count == 0 || shortfall_of(row.reason) < shortfall_of(shared.example)) {
      shared.example = row.reason;
      shared.candidate = id;
    }
    ++shared.count;
  }
  std::vector<SharedReason> all;
  for (auto& [pattern, shared] : by_pattern) all.push_back(std::move(shared));
  std::ranges::stable_sort(all, std::greater<>(), &SharedReason::count);
  return all;
}

}  // namespace moesim
