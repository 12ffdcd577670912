// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/winners.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/sweep/stored_value.h"

namespace moesim {
namespace {

constexpr std::size_t most_named = 3;  // policies

bool is_balanced(const Contender& c) { return c.routing == "balanced"; }

/// The first few policies, each with why.
std::string by_policy(const std::map<std::string, std::string>& reasons, const char* between) {
  std::vector<std::string> named;
  for (const auto& [policy, why] : reasons) {
    if (named.size() == most_named) break;
    named.push_back(policy + between + why);
  }
  if (named.size() < reasons.size()) named.emplace_back("...");
  return fmt::format("{}", fmt::join(named, "; "));
}

/// Empty if there is no such column.
std::string text_in(const StoredRows& rows, const std::vector<StoredValue>& row,
                    const std::string& column) {
  const auto found = std::ranges::find(rows.columns, column);
  if (found == rows.columns.end()) return "";
  return text_of(row[static_cast<std::size_t>(found - rows.columns.begin())]);
}

}  // namespace

Winners::Winners(const std::vector<Contender>& all, bool lossy_allowed)
    : any_recorded_(!std::ranges::all_of(all, is_balanced)),
      any_runs_(std::ranges::any_of(all, &std::string::empty, &Contender::cannot_run)),
      lossy_allowed_(lossy_allowed || std::ranges::all_of(all, [&](const Contender& c) {
                       return !c.lossy.empty() && c.policy == all.front().policy;
                     })) {}

bool Winners::admit(const Contender& c) {
  if (any_recorded_ && is_balanced(c)) {
    ++balanced_;
    return false;
  }
  if (any_runs_ && !c.cannot_run.empty()) {
    ++cannot_run_;
    obstacles_.try_emplace(c.policy, c.cannot_run);
    return false;
  }
  if (lossy_allowed_ || c.lossy.empty()) return true;
  ++lossy_;
  losses_.try_emplace(c.policy, c.lossy);
  return false;
}

std::string Winners::left_out() const {
  std::string text;
  if (balanced_ > 0) {
    text +=
        fmt::format("# not ranked: {} with balanced routing, a what-if that nobody can choose\n",
                    counted(balanced_, "case"));
  }
  if (cannot_run_ > 0) {
    text += fmt::format("# not ranked: {} that cannot run ({})\n", cannot_run_,
                        by_policy(obstacles_, ": "));
  }
  if (lossy_ == 0) return text;
  return text + fmt::format("# not ranked: {} lossy ({}); --lossy allow ranks them\n", lossy_,
                            by_policy(losses_, " "));
}

std::string keep_winners(StoredRows& rows, bool lossy_allowed) {
  std::vector<Contender> all;
  for (const auto& row : rows.rows) {
    all.push_back({text_in(rows, row, "policy"), text_in(rows, row, "routing"),
                   text_in(rows, row, lossy_column), text_in(rows, row, cannot_run_column)});
  }
  Winners winners(all, lossy_allowed);
  std::vector<std::vector<StoredValue>> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (winners.admit(all[i])) kept.push_back(std::move(rows.rows[i]));
  }
  rows.rows = std::move(kept);
  return winners.left_out();
}

}  // namespace moesim
