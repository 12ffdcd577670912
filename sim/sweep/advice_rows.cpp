// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/advice_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/sweep/advice_text.h"
#include "sim/sweep/reasons.h"

namespace moesim {
namespace {

constexpr std::size_t most_resources = 3;  // that are reported

}  // namespace

std::string notes_of(const std::vector<const SweepRow*>& rows) {
  std::set<std::string> all;
  for (const SweepRow* row : rows) {
    const std::string note = text_in(*row, "notes");
    if (!note.empty()) all.insert(fmt::format("# {} {}\n", text_in(*row, "policy"), note));
  }
  return fmt::format("{}", fmt::join(all, ""));
}

std::string degrees_of(const SweepGrid& grid, const std::vector<const SweepRow*>& rows) {
  const auto says_none = [](const SweepAxis& axis) {
    return axis.name == "policy" || axis.name == "routing";
  };
  if (!std::ranges::all_of(grid.axes(), says_none)) return "";
  std::map<double, std::set<std::string>> policies;  // by degree
  for (const SweepRow* row : rows) {
    policies[figure_number(*row, "ep")].insert(text_in(*row, "policy"));
  }
  std::string text;
  for (const auto& [ep, names] : policies) {
    if (policies.size() > 1) text += fmt::format("# ep {}: {}\n", ep, fmt::join(names, ", "));
  }
  return text;
}

std::string words_of(const std::vector<BreakEven>& found) {
  if (found.empty()) {
    return fmt::format("with no resource of the cluster up to {:g} times as large or as small",
                       farthest_factor);
  }
  std::vector<std::string> all;
  for (const BreakEven& b : found) {
    all.push_back(fmt::format("{} {:.2f} times", b.resource, b.factor));
    if (all.size() == most_resources) break;
  }
  return fmt::format("with {} as now", fmt::join(all, ", or with "));
}

void throw_reasons(const Candidates& candidates, bool barred) {
  const SweepGrid& grid = candidates.grid();
  std::vector<Diagnostic> all;
  for (const SharedReason& reason : shared_reasons(candidates.rows())) {
    all.push_back({Severity::error, "", 0, 0, reason.varies ? reason.text() : reason.example, "",
                   hint_about(grid, reason.candidate)});
  }
  if (barred) {
    all.push_back({Severity::error, "", 0, 0, "no candidate may win", "",
                   "all that can be simulated are lossy, or have balanced routing: "
                   "--lossy allow, --routing recorded"});
    throw Error(all);
  }
  const std::int64_t unseen = grid.size() - std::ssize(candidates.rows());
  const std::string hint =
      unseen == 0 ? "" : fmt::format("--budget was too short for {} of them", unseen);
  all.push_back({Severity::error, "", 0, 0, "no candidate could be simulated", "", hint});
  throw Error(all);
}

}  // namespace moesim
