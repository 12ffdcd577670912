// SPDX-License-Identifier: Apache-2.0
// Where in a shorter pipeline the steady state is, from which a longer one is continued.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/run/backends.h"
#include "sim/run/memory_views.h"
#include "sim/run/planned_steps.h"
#include "sim/run/runs_on.h"
#include "sim/run/simulate.h"
#include "sim/run/steady_state.h"

namespace moesim {
namespace {

/// An iteration of many microbatches of a small model, planned for few.
struct FewMicrobatches {
  FewMicrobatches(const std::string& parallel, const std::string& pipeline, int nodes, int gpus)
      : scenario(
            read_scenario("", {{"topology", "h100-rail", "t"},
                               {"model", "qwen3-30b-a3b", "m"},
                               {"policy", "alltoall", "p"},
                               {"synth", "{layers: 4, tokens: 32768, sequences: 64}", "r"},
                               {"microbatches", "{distinct: 2}", "d"},
                               {"batch", "{global: 512, micro: 1, sequence: 512}", "b"},
                               {"memory", "ignore", "y"},
                               {"parallel", parallel, "g"},
                               {"pipeline", pipeline, "l"},
                               {"set", "topology.nodes=" + std::to_string(nodes), "n"},
                               {"set", "topology.node.gpus=" + std::to_string(gpus), "n"},
                               {"set", "topology.node.nics.count=" + std::to_string(gpus), "n"},
                               {"set", "model.layers=4", "l"},
                               {"set", "model.moe_layers={first: 0, count: 4}", "l"}})),
        inputs(open_inputs(scenario)),
        run(runs_on(scenario, inputs, 0).front()),
        steps(run, {.routing = run.routing, .fewer_microbatches = true}, false),
        planned(steps.step(0)),
        priced(planned.plan, run.cluster.topology),
        timeline(make_backend(Fidelity::port, scenario.p2p_order, run.cluster)->run(priced)) {}

  std::optional<SteadyState> steady() const {
    return steady_state(priced, timeline, *planned.shortened, stages_of(planned.memory),
                        run.cluster.gpus);
  }
  /// When the first of the GPUs ends the last turn that repeats.
  Seconds first_end(const SteadyState& of) const {
    Seconds first(1e9);
    for (std::size_t g = 0; g < of.turns.size(); ++g) {
      const auto stage = static_cast<std::size_t>(stages_of(planned.memory)[g]);
      const int last = planned.shortened->stages[stage].last;
      first = std::min(first, of.turns[g].turns[static_cast<std::size_t>(last) - 1].end);
    }
    return first;
  }
  /// When a GPU first joins a transfer between stages that repeats.
  Seconds first_joined(const SteadyState& of) const {
    Seconds first(1e9);
    for (std::size_t i = 0; i < planned.plan.ops.size(); ++i) {
      if (!of.continued.repeats[i] || !is_between_stages(planned.plan.ops[i].stream)) continue;
      for (std::size_t m = 0; m < planned.plan.ops[i].group.size(); ++m) {
        first = std::min(first, timeline.ops[i][m].start);
      }
    }
    return first;
  }

  Scenario scenario;
  Inputs inputs;
  PolicyRun run;
  PlannedSteps steps;
  PlannedStep& planned;
  PricedPlan priced;
  Timeline timeline;
};

TEST(SteadyWindow, EndsWithTheFirstLastTurnThatRepeats) {
  for (const int gpus : {1, 4}) {
    const FewMicrobatches few("{ep: " + std::to_string(gpus) + "}", "1f1b", 1, gpus);
    ASSERT_NE(few.planned.shortened, nullptr);
    const auto steady = few.steady();
    ASSERT_TRUE(steady) << gpus;
    EXPECT_EQ(steady->continued.window.end, few.first_end(*steady)) << gpus;
    EXPECT_EQ(steady->continued.times, few.planned.shortened->times);
  }
}

TEST(SteadyWindow, OfStagesIsOverBeforeATransferInItIsJoinedAgain) {
  for (const char* pipeline : {"dualpipe", "dualpipev", "v-min"}) {
    const FewMicrobatches few("{pp: 2, ep: 8}", pipeline, 2, 8);
    ASSERT_NE(few.planned.shortened, nullptr);
    const auto steady = few.steady();
    ASSERT_TRUE(steady) << pipeline;
    const Seconds period = steady->continued.window.end - steady->continued.window.start;
    const Seconds again = few.first_joined(*steady) + period;
    EXPECT_LT(again, few.first_end(*steady)) << pipeline;
    EXPECT_LT(steady->continued.window.end, again) << pipeline;
    EXPECT_NEAR(steady->continued.window.end.value, again.value, 1e-5 * period.value) << pipeline;
  }
}

TEST(SteadyWindow, OfOneGpuIsFound) {
  const FewMicrobatches few("{ep: 1}", "1f1b", 1, 1);
  const auto cases = simulate(few.scenario, few.inputs, {.workers = 0}).cases;
  const auto whole = simulate(few.scenario, few.inputs, {.workers = 0, .every_microbatch = true});
  const IterationFigures& figures = *cases.back().metrics.iteration;
  EXPECT_GT(figures.simulated_microbatches, 0);
  EXPECT_LT(figures.simulated_microbatches, 512);
  EXPECT_NEAR(cases.back().metrics.mean_step().value / whole.cases.back().metrics.mean_step().value,
              1, 1e-6);
}

}  // namespace
}  // namespace moesim
