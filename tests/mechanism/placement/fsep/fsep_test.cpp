// SPDX-License-Identifier: Apache-2.0
// FSEP's layouts: which counts they follow, what they move and restore, and lite routing.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/mechanism/placement/fsep/baselines.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/fsep_steps.h"

namespace moesim {
namespace {

TEST(FsepPlacement, CountsOfAStepFirstInfluenceTheNextAndTheSixthNoMore) {
  const Topology topology = bare_nodes(2, 4);
  const MoeModel model = fsep_model();
  const fsep::SlotGrid grid{8, 4, 2};
  const auto moving = [](int step) { return step % 8; };
  const FsepSteps replay("{kind: fsep, slots: 2}", topology, model,
                         trace_of(model, 8, 1, 12, moving), 8);
  EXPECT_EQ(replay.slots(0), fsep::initial_slots(8, grid));
  fsep::PlannerOptions options;
  options.cost.token = model.row_bytes();
  for (std::size_t step = 1; step < 12; ++step) {
    const std::size_t oldest = step < 5 ? 0 : step - 5;
    LoadMatrix sum = replay.loads[oldest];
    for (std::size_t s = oldest + 1; s < step; ++s) sum += replay.loads[s];
    EXPECT_EQ(replay.slots(step), fsep::plan(sum, grid, options).choice().placed.slots) << step;
  }
  // Other choices only in step 3.
  const FsepSteps other("{kind: fsep, slots: 2}", topology, model,
                        trace_of(model, 8, 1, 12, [&](int s) { return s == 3 ? 6 : moving(s); }),
                        8);
  for (std::size_t step = 0; step < 12; ++step) {
    if (step > 3 && step <= 8) continue;
    EXPECT_EQ(replay.slots(step), other.slots(step)) << step;
  }
  EXPECT_NE(replay.slots(4), other.slots(4));
}

TEST(FsepPlacement, LiteRoutingFollowsTheStepsOwnCounts) {
  const Topology topology = bare_nodes(2, 4);
  const MoeModel model = fsep_model();
  const FsepSteps replay("{kind: fsep, slots: 2}", topology, model,
                         trace_of(model, 8, 1, 4, [](int s) { return 2 * s; }), 8);
  for (std::size_t step = 0; step < 4; ++step) {
    const LayerWork& layer = replay.plans[step].layers[0];
    const fsep::Reach reach(layer.assignment().placement(), 4);
    EXPECT_EQ(layer.counts.slots, fsep::spread(replay.loads[step], reach).slots) << step;
  }
}

TEST(FsepPlacement, ANewLayoutMovesNothing) {
  const MoeModel model = fsep_model();
  const FsepSteps replay("{kind: fsep, slots: 2}", bare_nodes(2, 4), model,
                         trace_of(model, 8, 1, 3, [](int s) { return s; }), 8);
  EXPECT_NE(replay.slots(1), replay.slots(2));
  for (const PlannedStep& step : replay.plans) {
    EXPECT_TRUE(step.layers[0].decision.migrate.empty());
    EXPECT_EQ(step.layers[0].decision.gather[0].traffic,
              replay.plans[0].layers[0].decision.gather[0].traffic);
  }
}

TEST(FsepPlacement, EveryRunOfRanksIsFsepByItself) {
  const MoeModel model = fsep_model(4);
  const FsepSteps replay("{kind: fsep, slots: 2}", bare_nodes(2, 4), model,
                         trace_of(model, 8, 1, 2, [](int s) { return s; }), 4);
  const LayerWork& layer = replay.plans[1].layers[0];
  const ByteMatrix& traffic = layer.decision.gather[0].traffic;
  EXPECT_EQ(traffic.at(GpuId(5), GpuId(6)), Bytes(2 * 192 / 4 * 2));
  EXPECT_EQ(traffic.at(GpuId(3), GpuId(4)), Bytes(0));
  for (int run = 0; run < 2; ++run) {
    const SlotTable all = replay.slots(1);
    const Placement placement(4, SlotTable(all.begin() + 4 * run, all.begin() + 4 * run + 4));
    LoadMatrix loads(4, 4);
    for (int r = 0; r < 4; ++r) {
      for (int e = 0; e < 4; ++e) {
        loads.at(GpuId(r), ExpertId(e)) = replay.loads[1].at(GpuId(4 * run + r), ExpertId(e));
      }
    }
    const auto expected = fsep::spread(loads, fsep::Reach(placement, 4)).slots;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), layer.counts.slots.begin() + 8 * run));
  }
}

TEST(FsepPlacement, ShardsArePaddedToWholeParameters) {
  MoeModel model = fsep_model();
  model.hidden = 8, model.expert_ffn = 5;  // 120 parameters on 16 ranks: 7.5 each
  const FsepSteps replay("{kind: fsep, slots: 1}", bare_nodes(2, 8), model,
                         trace_of(model, 16, 1, 1, [](int) { return 0; }), 16);
  const LayerDecision& decision = replay.plans[0].layers[0].decision;
  EXPECT_EQ(decision.gather[0].traffic.unit(), Bytes(8 * 2));
  EXPECT_EQ(decision.memory[0].resident(), Bytes(8 * 8 * 16));  // E x shard x 16 bytes
  // The reduce reads 16 chunks of 16 bytes and writes shards of 8 experts in fp32.
  EXPECT_EQ(decision.reduce[0].decode[3], (MemoryBound{Bytes(256), Bytes(256)}));
}

TEST(FsepPlacement, ForwardAloneRestoresOnce) {
  const MoeModel model = fsep_model();
  const FsepSteps replay("{kind: fsep, slots: 2}", bare_nodes(2, 4), model,
                         trace_of(model, 8, 2, 1, [](int) { return 0; }), 8, false);
  const LayerDecision& decision = replay.plans[0].layers[0].decision;
  EXPECT_TRUE(decision.regather.empty());
  EXPECT_TRUE(decision.reduce.empty());
  const MemoryUse& use = replay.plans[0].memory.peaks[0].use;
  EXPECT_EQ(use.of(MemoryPart::weights), Bytes(2 * 8 * 192 / 8 * 2));
  EXPECT_EQ(use.of(MemoryPart::gathered), Bytes(2 * 2 * 192 * 2));  // two layers, two slots
}

}  // namespace
}  // namespace moesim
