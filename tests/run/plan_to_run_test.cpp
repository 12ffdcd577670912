// SPDX-License-Identifier: Apache-2.0
// What may be left out of a simulation, and what needs all GPUs and microbatches.
#include "sim/run/plan_to_run.h"

#include <gtest/gtest.h>

#include "sim/run/runs_on.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

/// A run of an iteration, or of layers, at these fidelities.
struct RunToShorten {
  explicit RunToShorten(bool trains, const std::string& fidelities = "port")
      : scenario(trains ? scenario_of("alltoall", {{"fidelity", fidelities, "f"},
                                                   {"parallel.ep", "8", "e"},
                                                   {"batch.global", "16", "b"},
                                                   {"batch.sequence", "64", "s"},
                                                   {"layers", "null", "l"},
                                                   {"steps", "0", "t"}})
                        : scenario_of("alltoall", {{"fidelity", fidelities, "f"}})),
        inputs(open_inputs(scenario)),
        run(runs_on(scenario, inputs, 0).back()) {}

  Scenario scenario;
  Inputs inputs;
  PolicyRun run;
};

TEST(PlanToRun, GpusStandForOthersInTrainingAtFidelitiesWithoutFlows) {
  const auto may = [](bool trains, const std::string& fidelities) {
    return may_stand_for_others(RunToShorten(trains, fidelities).run, {});
  };
  EXPECT_TRUE(may(true, "port"));
  EXPECT_TRUE(may(true, "analytic"));
  EXPECT_TRUE(may(true, "[port, analytic]"));
  EXPECT_FALSE(may(true, "[port, flow]"));
  EXPECT_FALSE(may(false, "port"));
}

TEST(PlanToRun, AnyGpuIsSimulatedThatIsAskedFor) {
  RunToShorten training(true);
  EXPECT_FALSE(may_stand_for_others(training.run, {.every_gpu = true}));
  EXPECT_FALSE(may_stand_for_others(training.run, {.elasticities = true}));
  EXPECT_TRUE(may_stand_for_others(training.run, {.bounds = true}));
  EXPECT_TRUE(may_stand_for_others(training.run, {.pictures = true}));
  const TimelineFile drawn({"t.json", {}, "1", false}, 0, 1, 8);
  training.run.timeline = &drawn;
  EXPECT_FALSE(may_stand_for_others(training.run, {}));
}

TEST(PlanToRun, ASteadyStateContinuesUnlessAllMicrobatchesAreAskedFor) {
  RunToShorten training(true);
  EXPECT_TRUE(may_continue(training.run, {}));
  EXPECT_TRUE(may_continue(training.run, {.every_gpu = true}));
  EXPECT_FALSE(may_continue(training.run, {.bounds = true}));
  EXPECT_FALSE(may_continue(training.run, {.elasticities = true}));
  EXPECT_FALSE(may_continue(training.run, {.pictures = true}));
  EXPECT_FALSE(may_continue(training.run, {.every_microbatch = true}));
  EXPECT_FALSE(may_continue(training.run, {.least_times = true}));
  const TimelineFile drawn({"t.json", {}, "1", false}, 0, 1, 8);
  training.run.timeline = &drawn;
  EXPECT_FALSE(may_continue(training.run, {}));
}

}  // namespace
}  // namespace moesim
