// SPDX-License-Identifier: Apache-2.0
#include "sim/run/engine_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/run/engine_views.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

/// How far reused prices were from simulated ones, over all cases.
std::string price_note(const std::vector<const EngineCase*>& ran) {
  std::int64_t checks = 0;
  const EngineCase* worst = nullptr;
  for (const EngineCase* c : ran) {
    checks += c->outcome.errors.all().checks;
    if (worst == nullptr || c->outcome.errors.worse_mean() > worst->outcome.errors.worse_mean()) {
      worst = c;
    }
  }
  if (checks == 0) return "";
  const auto off = [](const PriceErrors& errors) {
    return fmt::format("{:.2f} % off on average and {:.2f} % at most", 100 * errors.mean(),
                       100 * errors.most);
  };
  const auto& [prompts, decodes] = worst->outcome.errors;
  std::string text =
      fmt::format("# prices of single passes are reused: {} were simulated to check them", checks);
  if (prompts.checks > 0) text += ", those with prompts " + off(prompts);
  if (decodes.checks > 0) text += (prompts.checks > 0 ? ", others " : ", ") + off(decodes);
  if (ran.size() > 1) text += ", in the case with the largest errors";
  constexpr double much = 0.1;
  return text + (worst->outcome.errors.worse_mean() > much
                     ? ": too much, simulate all (serving.prices: exact)\n"
                     : "; percentiles of a run move more (serving.prices: exact simulates all)\n");
}

/// Of a balancer: whether it has planned, and when experts move.
std::string balancing_note(const EngineCase& c) {
  const EngineBalancing& balancing = c.outcome.balancing;
  if (!balancing.from_loads) return "";
  std::string text = fmt::format("# {} on {}", c.name.policy_text(), c.name.topology);
  if (balancing.never_planned()) {
    return text +
           " never planned from loads: it has seen too few steps (--warmup N shows it N before "
           "those of `steps`" +
           (balancing.told ? ", serving.engine.rebalance: {interval: N} moves experts in the run)\n"
                           : ")\n");
  }
  if (balancing.interval == 0) {
    return text + ": experts moved before the run and stay" +
           (balancing.told
                ? " (serving.engine.rebalance: {interval: N} moves them every N passes)\n"
                : "\n");
  }
  if (balancing.plans == 0) {
    return text + fmt::format(
                      ": experts are where loads before the run put them; they move every {} "
                      "passes of an instance, and the run has {}\n",
                      balancing.interval, c.outcome.metrics.passes.passes);
  }
  return text + fmt::format(": {}, every {} passes, moved experts {}, which took {} each ({}){}\n",
                            counted(balancing.plans, "plan"), balancing.interval,
                            counted(balancing.moves, "time"), to_string(balancing.stall),
                            balancing.stall_stated ? "stated" : "simulated",
                            balancing.planned ? "" : "; before that they were as at the start");
}

/// Of experts that are to move, but of no policy.
std::string rebalance_note(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  const auto moves = [](const EngineCase* c) { return c->outcome.balancing.from_loads; };
  if (!scenario.engine_run->states_rebalance || ran.empty() || std::ranges::any_of(ran, moves)) {
    return "";
  }
  return "# serving.engine.rebalance has no effect: no policy places experts by their loads\n";
}

/// Of kernels that the cluster cannot run or that are not for passes as large, once for each
/// policy.
std::string kernels_note(const std::vector<const EngineCase*>& ran) {
  std::set<std::string> notes;
  const auto add = [&](const EngineCase* c, const std::string& note) {
    notes.insert(fmt::format("# {} {}\n", c->name.policy, note));
  };
  for (const EngineCase* c : ran) {
    if (!c->outcome.cannot_run.empty()) add(c, cannot_run_note(c->outcome.cannot_run));
    if (!c->outcome.kernels_note.empty()) add(c, c->outcome.kernels_note);
  }
  return fmt::format("{}", fmt::join(notes, ""));
}

/// Of costs that only one pool states.
std::string costs_note(const std::vector<const EngineCase*>& ran) {
  std::set<std::string> gaps;
  for (const EngineCase* c : ran) gaps.insert(c->outcome.costs_not_stated);
  gaps.erase("");
  std::string text;
  for (const std::string& gap : gaps) {
    text += fmt::format(
        "# the {} is not stated: no costs of tokens (topology.price and topology.power, or "
        "serving.decode: {{set: [topology.price=..]}})\n",
        gap);
  }
  return text;
}

std::string loss_note(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  const EngineRun& run = *scenario.engine_run;
  if (ran.empty() || (run.losses.empty() && !run.loss_rate)) return "";
  const auto lost = [](const EngineCase* c) { return c->outcome.losses.losses > 0; };
  const auto in_vain = [](const EngineCase* c) { return c->outcome.losses.in_vain; };
  if (const auto most = std::ranges::max(ran | std::views::transform(in_vain)); most > 0) {
    return fmt::format("# {} changed nothing: their ranks were lost already\n",
                       most == 1 ? "1 loss" : fmt::format("up to {} losses", most));
  }
  if (std::ranges::any_of(ran, lost)) return "";
  const auto time = [](const EngineCase* c) { return c->outcome.metrics.time; };
  return fmt::format("# no rank was lost: the first loss comes after the {} of the run\n",
                     to_string(std::ranges::max(ran | std::views::transform(time))));
}

/// Of requests that come by themselves, how long engines still answer after the last one; nothing
/// if that is short.
std::string drain_note(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  constexpr double little = 0.1;
  if (ran.empty() || scenario.engine_run->draw.concurrency > 0) return "";
  const auto after = [](const EngineCase* c) {
    return c->outcome.metrics.time - c->outcome.metrics.last_arrival;
  };
  const ServingMetrics& longest = (*std::ranges::max_element(ran, {}, after))->outcome.metrics;
  const Seconds last = longest.last_arrival;  // 0: all come at once
  if (last == Seconds(0) || longest.time <= last * (1 + little)) return "";
  return fmt::format("# rates are over the whole run: requests came until {}, answers until {}\n",
                     to_string(last), to_string(longest.time));
}

}  // namespace

std::string figure_notes(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  return kernels_note(ran) + drain_note(scenario, ran) + price_note(ran);
}

std::string engine_notes(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  std::string text;
  for (const EngineCase* c : ran) text += balancing_note(*c);
  text += rebalance_note(scenario, ran) + costs_note(ran);
  return text + loss_note(scenario, ran) + figure_notes(scenario, ran);
}

}  // namespace moesim
