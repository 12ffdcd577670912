// SPDX-License-Identifier: Apache-2.0
#include "sim/report/order_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "sim/report/token_rates.h"

namespace moesim {
namespace {

constexpr double least_told = 0.1;    // of a step
constexpr double least_load = 1.02;   // times the other's load
constexpr double nearly_none = 0.01;  // of a step

using Cases = std::vector<const CaseResult*>;

/// Cases that ran, by topology and fidelity.
std::vector<Cases> comparable(const std::vector<CaseResult>& cases) {
  std::vector<Cases> groups;
  for (const CaseResult& c : cases) {
    if (!c.ran()) continue;
    const auto known = std::ranges::find_if(groups, [&](const Cases& group) {
      return group.front()->name.topology == c.name.topology &&
             group.front()->name.fidelity == c.name.fidelity;
    });
    if (known == groups.end()) {
      groups.push_back({&c});
    } else {
      known->push_back(&c);
    }
  }
  return groups;
}

Seconds time_of(const CaseResult& c) { return c.metrics.mean_step(); }
double load_of(const CaseResult& c) { return c.metrics.total.load_max_over_mean.value(); }
double share_of(const CaseResult& c, Seconds part) {
  const Seconds all = c.metrics.time_of_steps();
  return all > Seconds(0) ? part / all : 0;
}
double hidden_share(const CaseResult& c) { return share_of(c, c.metrics.breakdown.overlapped); }
/// As the table says what binds; of a path without them they are migrations.
double weights_share(const CaseResult& c) {
  return c.metrics.path.share(PathKind::weights) < least_told
             ? 0
             : share_of(c, c.metrics.breakdown.weights);
}
std::string percent_of(const CaseResult& c, double share) {
  return fmt::format("{} {:.0f} %", c.name.policy, 100 * share);
}

std::string weights_line(const Cases& cases, const std::string& where) {
  std::vector<std::string> waiting;
  for (const CaseResult* c : cases) {
    const double share = weights_share(*c);
    if (share >= least_told) waiting.push_back(percent_of(*c, share));
  }
  if (waiting.empty()) return "";
  return fmt::format(
      "# note: weights travel in every step, and nothing hides them for so much of it: {} ({}); "
      "with more tokens per GPU compute hides more\n",
      fmt::join(waiting, ", "), where);
}

/// Whether experts are where they were put before the first step, and their weights with them.
bool experts_stay(const CaseResult& c) {
  const LayerMetrics& total = c.metrics.total;
  return c.twin.fixed && !(total.parameters > total.gradients);
}

/// Static placements have the loads of the routing, unless rows are padded: those are even.
std::string load_lines(const Cases& cases, const std::string& where) {
  std::string text;
  for (const CaseResult* c : cases) {
    if (c->twin.fixed) continue;
    const CaseResult* lighter = nullptr;
    for (const CaseResult* other : cases) {
      const bool counts = experts_stay(*other) && load_of(*other) > 1 + 1e-9;
      if (!counts || time_of(*other) >= time_of(*c)) continue;
      if (!lighter || load_of(*other) > load_of(*lighter)) lighter = other;
    }
    if (!lighter || load_of(*c) < least_load * load_of(*lighter)) continue;
    text += fmt::format(
        "# note: {} places experts so that the busiest GPU has {:.2f} times the mean load; {}, "
        "whose "
        "experts stay, has {:.2f} and is faster ({})\n",
        c->name.policy, load_of(*c), lighter->name.policy, load_of(*lighter), where);
  }
  return text;
}

std::string hidden_line(const Cases& cases, const std::string& where) {
  std::vector<std::string> hiding, exposed;
  Seconds fastest(0);
  for (const CaseResult* c : cases) {
    if (c->metrics.total.parameters > Seconds(0) || hidden_share(*c) < least_told) continue;
    hiding.push_back(percent_of(*c, hidden_share(*c)));
    fastest = hiding.size() == 1 ? time_of(*c) : std::min(fastest, time_of(*c));
  }
  for (const CaseResult* c : cases) {
    const bool behind = !hiding.empty() && time_of(*c) > fastest;
    if (behind && hidden_share(*c) < nearly_none) exposed.push_back(c->name.policy);
  }
  if (exposed.empty()) return "";
  return fmt::format(
      "# note: compute hides exchanges of tokens for so much of the step: {}; {}, which {} slower, "
      "hide{} none ({})\n",
      fmt::join(hiding, ", "), fmt::join(exposed, ", "), exposed.size() == 1 ? "is" : "are",
      exposed.size() == 1 ? "s" : "", where);
}

/// Runs of cases, fastest first, each of which takes hardly longer than the one before.
std::string tie_line(Cases cases, const std::string& where) {
  std::ranges::stable_sort(cases, {}, [](const CaseResult* c) { return time_of(*c).value; });
  std::vector<std::string> ties;
  std::vector<std::string> run;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    run.push_back(cases[i]->name.policy);
    const bool goes_on =
        i + 1 < cases.size() && time_of(*cases[i + 1]) < time_of(*cases[i]) * (1 + nearly_none);
    if (goes_on) continue;
    if (run.size() > 1) ties.push_back(fmt::format("{}", fmt::join(run, ", ")));
    run.clear();
  }
  if (ties.empty()) return "";
  return fmt::format("# note: less than 1 % apart, too little for an order: {} ({})\n",
                     fmt::join(ties, "; "), where);
}

/// A rate that nothing is taken off is better than a measured one of the same link.
std::string data_sheet_lines(const Cases& cases, const std::string& where) {
  std::set<std::string> classes;
  for (const CaseResult* c : cases) classes.merge(token_rates(*c).by_data_sheet);
  std::string text;
  for (const std::string& name : classes) {
    std::vector<std::string> sheet, measured;
    for (const CaseResult* c : cases) {
      const TokenRates rates = token_rates(*c);
      const bool by_sheet = rates.by_data_sheet.contains(name);
      if (!by_sheet && !rates.of_transport.contains(name)) continue;
      auto& names = by_sheet ? sheet : measured;
      const bool known = std::ranges::find(names, c->name.policy) != names.end();
      if (!known) names.push_back(c->name.policy);  // of two routings
    }
    if (sheet.empty() || measured.empty()) continue;
    text += fmt::format(
        "# note: {} by data sheet ({}) against measured or assumed rates ({}): the order of these "
        "is not known ({})\n",
        name, fmt::join(sheet, ", "), fmt::join(measured, ", "), where);
  }
  return text;
}

}  // namespace

std::string order_notes(const std::vector<CaseResult>& cases) {
  std::string text;
  for (const Cases& group : comparable(cases)) {
    const CaseName& name = group.front()->name;
    const std::string where = fmt::format("{}, {}", name.topology, name.fidelity);
    text += data_sheet_lines(group, where);
    if (group.front()->metrics.iteration) continue;
    text += weights_line(group, where) + load_lines(group, where) + hidden_line(group, where) +
            tie_line(group, where);
  }
  return text;
}

}  // namespace moesim
