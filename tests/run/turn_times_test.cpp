// SPDX-License-Identifier: Apache-2.0
// What the turns of a pipeline take: of a timeline written by hand, and of planned iterations.
#include "sim/run/turn_times.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sim/run/simulate.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

/// Ops on GPU 0 with their times, in seconds.
struct HandWritten {
  Plan plan;
  Timeline timeline;

  void add(const OpKey& key, Stream stream, double start, double end) {
    Op op;
    op.key = key;
    op.stream = stream;
    op.group = Group{GpuId(0)};
    plan.ops.push_back(op);
    timeline.ops.add_row({{Seconds(start), Seconds(end)}});
    timeline.makespan = std::max(timeline.makespan, Seconds(end));
  }
  void pass(Pass way, Role role, int microbatch, double start, double end) {
    OpKey key;
    key.kind = OpKind::fc1;
    key.role = role;
    key.pass = way;
    key.microbatch = microbatch;
    add(key, Stream::compute, start, end);
  }
};

Seconds sum_of(const TurnTimes& times) {
  return std::accumulate(times.parts.begin(), times.parts.end(), Seconds(0));
}

TEST(TurnTimes, CountEveryMomentOnce) {
  // One stage: F0, F1 with B0, the inputs of B1, its weights.
  const StageWork f0{WorkKind::forward, 0, 0}, f1{WorkKind::forward, 1, 0};
  const StageWork b0{WorkKind::backward, 0, 0}, b1{WorkKind::input_gradient, 1, 0};
  const StageWork w1{WorkKind::weight_gradient, 1, 0};
  const Pipeline pipeline({PipelineKind::combined, 1, 2, 1},
                          {{{f0, {}}, {f1, b0}, {b1, {}}, {w1, {}}}});
  HandWritten hand;
  hand.plan.gpus = 1;
  hand.pass(Pass::forward, Role::plain, 0, 1, 3);
  hand.pass(Pass::forward, Role::plain, 1, 4, 6);
  hand.pass(Pass::backward, Role::recompute, 0, 6, 6.5);
  hand.pass(Pass::backward, Role::dgrad, 0, 6.5, 8);
  hand.pass(Pass::backward, Role::wgrad, 0, 8, 9);  // no turn of its own
  hand.pass(Pass::backward, Role::dgrad, 1, 8.5,
            10);  // half a second of it is in the turn before
  hand.pass(Pass::backward, Role::wgrad, 1, 11, 13);
  OpKey transfer;
  transfer.kind = OpKind::stage_transfer;
  hand.add(transfer, Stream::pp_down, 0, 20);
  OpKey update;
  update.kind = OpKind::optimizer;
  hand.add(update, Stream::compute, 12, 15);
  const TurnTimes times = turn_times_by_stage(hand.plan, hand.timeline, pipeline, {0}).front();
  EXPECT_DOUBLE_EQ(times.of(TurnPart::forward).value, 2);
  EXPECT_DOUBLE_EQ(times.of(TurnPart::merged).value, 5);
  EXPECT_DOUBLE_EQ(times.of(TurnPart::backward).value, 1);
  EXPECT_DOUBLE_EQ(times.of(TurnPart::weights).value, 2);
  EXPECT_DOUBLE_EQ(times.of(TurnPart::update).value, 2);  // behind the turn that it begins in
  EXPECT_DOUBLE_EQ(times.of(TurnPart::bubble).value, 20 - 12);
}

// Stages do unlike things: each has its own mean, and all GPUs theirs.
TEST(TurnTimes, AreThoseOfEveryStagesMeanGpu) {
  const StageWork f0{WorkKind::forward, 0, 0}, b0{WorkKind::backward, 0, 0};
  const Pipeline pipeline({PipelineKind::one_f_one_b, 2, 1, 1},
                          {{{f0, {}}, {b0, {}}}, {{f0, {}}, {b0, {}}}});
  HandWritten hand;
  hand.plan.gpus = 4;
  for (int gpu = 0; gpu < 4; ++gpu) {
    hand.pass(Pass::forward, Role::plain, 0, 0, 1 + gpu);
    hand.plan.ops.back().group = Group{GpuId(gpu)};
  }
  const auto stages = turn_times_by_stage(hand.plan, hand.timeline, pipeline, {0, 0, 1, 1});
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_DOUBLE_EQ(stages[0].of(TurnPart::forward).value, 1.5);
  EXPECT_DOUBLE_EQ(stages[0].of(TurnPart::bubble).value, 2.5);
  EXPECT_DOUBLE_EQ(stages[1].of(TurnPart::forward).value, 3.5);
  EXPECT_DOUBLE_EQ(mean_of(stages).of(TurnPart::forward).value, 2.5);
}

RunMetrics metrics_of(const std::string& kind, const std::string& grid) {
  const Scenario scenario =
      read_scenario("", {{"topology", "h100-rail", "t"},
                         {"model", "tiny-moe", "m"},
                         {"trace", "tiny-moe-train", "r"},
                         {"policy", "alltoall", "p"},
                         {"parallel", grid, "g"},
                         {"software", "ideal", "w"},
                         {"pipeline", kind, "k"},
                         {"batch", "{global: 32, micro: 1, sequence: 128}", "b"},
                         {"set", "topology.nodes=1", "n"}});
  const Inputs inputs = open_inputs(scenario);
  return simulate(scenario, inputs, {.workers = 1}).cases.at(0).metrics;
}

TEST(TurnTimes, OfAPlannedIterationAddUpToIt) {
  for (const char* kind : {"1f1b", "combined-1f1b", "zb1p", "dualpipe"}) {
    const RunMetrics m = metrics_of(kind, "{pp: 2, ep: 4}");
    ASSERT_EQ(m.iteration->stage_turns.size(), 2u) << kind;
    for (const TurnTimes& stage : m.iteration->stage_turns) {
      EXPECT_NEAR(sum_of(stage) / m.times().iteration, 1, 1e-9) << kind;
    }
    const TurnTimes turns = mean_of(m.iteration->stage_turns);
    const bool merges = kind != std::string("1f1b") && kind != std::string("zb1p");
    const bool splits = kind == std::string("zb1p") || kind == std::string("dualpipe");
    EXPECT_EQ(turns.of(TurnPart::merged).value > 0, merges) << kind;
    EXPECT_EQ(turns.of(TurnPart::weights).value > 0, splits) << kind;
    EXPECT_GT(turns.of(TurnPart::forward).value, 0) << kind;
    EXPECT_GT(turns.of(TurnPart::update).value, 0) << kind;
    // What waits within a turn is not a bubble of the turns.
    EXPECT_LE(
        turns.of(TurnPart::bubble).value,
        (m.times().of(IterationPart::bubble) + m.times().of(IterationPart::waiting)).value * 1.001)
        << kind;
  }
  EXPECT_TRUE(metrics_of("1f1b", "{pp: 1, ep: 4}").iteration->stage_turns.empty());
}

/// Weights on their way and sums of gradients belong to no turn, whose microbatch they name.
TEST(TurnTimes, OfTensorGroupsAreThoseOfTheirKernels) {
  for (const char* grid : {"{pp: 2, ep: 4}", "{pp: 2, tp: 2, ep: 2, etp: 1}"}) {
    const auto stages = metrics_of("1f1b", grid).iteration->stage_turns;
    for (const TurnTimes& stage : stages) {
      const double share = stage.of(TurnPart::forward) /
                           (stage.of(TurnPart::forward) + stage.of(TurnPart::backward));
      EXPECT_GT(share, 0.2) << grid;
      EXPECT_LT(share, 0.7) << grid;
    }
  }
}

}  // namespace
}  // namespace moesim
