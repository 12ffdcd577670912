// SPDX-License-Identifier: Apache-2.0
// The planners of FSEP and of its baselines: when they change slots, how many, at what cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/fsep/baselines.h"
#include "sim/mechanism/placement/fsep/flex.h"
#include "sim/mechanism/placement/fsep/fsep_planner.h"
#include "tests/mechanism/placement/fsep/fsep_steps.h"

namespace moesim {
namespace {

TEST(FsepPlacement, BaselinesChangeWhenTheirAuthorsLetThem) {
  const Topology topology = bare_nodes(1, 8);
  const MoeModel model = fsep_model();
  const RoutingTrace trace = trace_of(model, 8, 1, 6, [](int s) { return s; });
  const fsep::SlotGrid grid{8, 8, 2};
  const auto replay = [&](const std::string& planner) {
    return FsepSteps("{kind: fsep, slots: 2, planner: " + planner + "}", topology, model, trace, 8);
  };
  const FsepSteps initial = replay("initial"), fsdp = replay("fsdp-ep"), even = replay("even");
  const FsepSteps smart = replay("smart, interval: 3");
  for (std::size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(initial.slots(step), fsep::initial_slots(8, grid));
    EXPECT_EQ(fsdp.slots(step),
              step == 0 ? fsep::initial_slots(8, grid) : fsep::fsdp_ep_slots(8, grid));
    EXPECT_EQ(even.slots(step), even.slots(0));
  }
  EXPECT_EQ(smart.slots(1), fsep::smart_slots(smart.loads[0].per_expert(), grid));
  EXPECT_EQ(smart.slots(3), smart.slots(1));
  LoadMatrix four = smart.loads[0];
  for (std::size_t s = 1; s < 4; ++s) four += smart.loads[s];
  EXPECT_EQ(smart.slots(4), fsep::smart_slots(four.per_expert(), grid));
}

TEST(FsepPlacement, FlexGoesOnFromItsOwnSlots) {
  const MoeModel model = fsep_model();
  const FsepSteps flex("{kind: fsep, slots: 3, planner: flex}", bare_nodes(2, 4), model,
                       trace_of(model, 8, 1, 6, [](int s) { return s / 2; }), 8);
  SlotTable slots = flex.slots(0);
  LoadMatrix sum = flex.loads[0];
  for (std::size_t step = 1; step < 6; ++step) {
    slots = fsep::flex_plan(sum, slots, {8, 4, 3}).slots;
    EXPECT_EQ(flex.slots(step), slots);
    sum += flex.loads[step];
  }
  EXPECT_NE(slots, flex.slots(0));
}

TEST(FsepPlacement, EvenSpreadsCopiesOverNodes) {
  const MoeModel model = fsep_model();
  const FsepSteps replay("{kind: fsep, slots: 2, planner: even}", bare_nodes(2, 4), model,
                         trace_of(model, 8, 1, 1, [](int) { return 0; }), 8);
  const SlotTable slots = replay.slots(0);
  for (std::size_t node = 0; node < 2; ++node) {
    std::vector<int> copies(8);
    for (std::size_t rank = 4 * node; rank < 4 * node + 4; ++rank) {
      for (const ExpertId expert : slots[rank]) ++copies[expert.index()];
    }
    EXPECT_THAT(copies, testing::Each(1));
  }
}

FsepPlanner planner_on(const Topology& topology, int experts, const FsepPlannerOptions& options,
                       std::optional<int> slots = {}) {
  const MoeModel model = fsep_model(experts);
  const int ranks = topology.gpu_count();
  const PlacementContext context{EpGroups(topology, ranks), model, experts, 1, true, {}, 0, 1, {}};
  return FsepPlanner(context, options, slots);
}

TEST(FsepPlanner, TakesAQuarterOfTheExpertsAsSlotsOrTheNextNumberThatSuits) {
  const Topology large = bare_nodes(3, 8), small = bare_nodes(1, 2);
  const auto slots = [](const Topology& topology, FsepPlanning planning, int experts,
                        bool queue = true) {
    const FsepPlannerOptions options{.planning = planning, .queue = queue};
    return planner_on(topology, experts, options).grid().slots_per_rank;
  };
  EXPECT_EQ(slots(large, FsepPlanning::laer, 8), 2);   // published
  EXPECT_EQ(slots(large, FsepPlanning::flex, 16), 4);  // published
  EXPECT_EQ(slots(large, FsepPlanning::laer, 3), 1);
  EXPECT_EQ(slots(small, FsepPlanning::laer, 8), 4);  // as many as hold all
  EXPECT_EQ(slots(large, FsepPlanning::laer, 36), 9);
  EXPECT_EQ(slots(large, FsepPlanning::laer, 36, false), 9);  // 24 x 9 is a multiple of 36
  EXPECT_EQ(slots(large, FsepPlanning::laer, 10, false), 5);  // 24 x 5 is one of 10
  EXPECT_EQ(slots(large, FsepPlanning::smart, 10), 5);        // groups of 2 ranks
}

TEST(FsepPlanner, IsForcedIfEveryExpertHasItsLeastReplicas) {
  const Topology nodes = bare_nodes(4, 8);
  const auto why = [&](FsepPlanning planning, int experts, int slots) {
    return planner_on(nodes, experts, {.planning = planning}, slots).forced();
  };
  EXPECT_EQ(why(FsepPlanning::laer, 8, 1),
            "had no slot to spare: any loads give each of 8 experts 4 replicas in 32 slots "
            "(placement.slots)");
  EXPECT_EQ(why(FsepPlanning::laer, 8, 2), "");
  EXPECT_EQ(why(FsepPlanning::laer, 32, 1),
            "had no slot to spare: any loads give each of 32 experts 1 replica in 32 slots "
            "(placement.slots)");
  EXPECT_EQ(why(FsepPlanning::laer, 16, 1), "");  // 16 slots are left after one replica each
  EXPECT_NE(why(FsepPlanning::flex, 32, 1), "");
  EXPECT_EQ(why(FsepPlanning::flex, 8, 1), "");
  EXPECT_NE(why(FsepPlanning::smart, 8, 1), "");
  EXPECT_EQ(why(FsepPlanning::smart, 8, 2), "");
  EXPECT_EQ(why(FsepPlanning::fsdp_ep, 32, 1), "");  // it plans from no loads
}

TEST(FsepPlanner, NodesAreTheLargestEqualBlocks) {
  EXPECT_EQ(EpGroups(bare_nodes(3, 8), 24).equal_blocks(), 8);
  EXPECT_EQ(EpGroups(bare_nodes(2, 8), 4).equal_blocks(), 4);
  EXPECT_EQ(EpGroups(bare_nodes(4, 6), 8).equal_blocks(), 2);
}

TEST(FsepPlanner, ChargesWhatTheClustersSlowestLinkTakes) {
  // With links as slow inside nodes as between them LAER-MoE's cost sees no nodes.
  const Topology topology = bare_nodes(2, 4, 50);
  const MoeModel model = fsep_model();
  const RoutingTrace trace = trace_of(model, 8, 1, 3, [](int s) { return s; });
  const FsepSteps cluster("{kind: fsep, slots: 3, bandwidths: cluster}", topology, model, trace, 8);
  fsep::PlannerOptions options;
  options.cost.token = model.row_bytes();
  options.cost.same_node = options.cost.other_node = BytesPerSecond(50e9);
  EXPECT_EQ(cluster.slots(1),
            fsep::plan(cluster.loads[0], {8, 4, 3}, options).choice().placed.slots);
}

void expect_error(const std::string& placement, const std::string& text) {
  try {
    system_of(placement);
    FAIL() << placement;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(text));
  }
}

TEST(FsepPlacement, ParametersWithoutEffectAreErrors) {
  expect_error("{kind: fsep, planner: even, window: 3}", "'placement.window' has no effect");
  expect_error("{kind: fsep, planner: flex, pq: false}", "'placement.pq' has no effect");
  expect_error("{kind: fsep, even: false, pq: false}", "no candidate is left");
  const MoeModel model = fsep_model();
  const RoutingTrace trace = trace_of(model, 8, 1, 1, [](int) { return 0; });
  const auto replay = [&](const std::string& params) {
    FsepSteps("{kind: fsep, " + params + "}", bare_nodes(1, 8), model, trace, 8);
  };
  EXPECT_THROW(replay("planner: smart, slots: 3"), Unsuitable);
  EXPECT_THROW(replay("pq: false, slots: 3, even: true, planner: laer, interval: 1, window: 0"),
               Error);
}

}  // namespace
}  // namespace moesim
