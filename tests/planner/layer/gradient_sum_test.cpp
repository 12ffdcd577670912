// SPDX-License-Identifier: Apache-2.0
// Sums of expert gradients between EP groups: compares the bytes of rings with bytes that were
// worked out by hand.
#include "sim/planner/layer/gradient_sum.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/mechanism/placement/hybrid/hybrid_case.h"

namespace moesim {
namespace {

std::vector<std::int64_t> sent_by(const ByteMatrix& traffic) {
  std::vector<std::int64_t> sent;
  for (int g = 0; g < traffic.ranks(); ++g) {
    sent.push_back(0);
    for (const auto& entry : traffic.row(GpuId(g))) sent.back() += traffic.bytes(entry).value;
  }
  return sent;
}

/// Bytes that each GPU sends to sum gradients; empty if there is no such exchange.
std::vector<std::int64_t> summed(const PlannedStep& planned) {
  for (const Op& op : planned.plan.ops) {
    if (op.stream == Stream::dp) return sent_by(op.exchange()->traffic);
  }
  return {};
}

TEST(GradientSum, EveryGpuSendsWhatARingAllReduceSends) {
  // Each of 8 GPUs, in 4 groups of 2, holds 2 of 4 experts. It sends 2 x 3/4 of their gradients,
  // which have 2 bytes per parameter.
  const HybridCase c = even_case(4, 2, 4, 2);
  const auto sent = summed(c.plan("contiguous", "alltoall"));
  EXPECT_EQ(sent, std::vector<std::int64_t>(8, 2 * parameters * 2 * 2 * 3 / 4));
}

TEST(GradientSum, ARingLeavesItsNodesByAllGpusThatItHasThere) {
  // 2 nodes of 4 GPUs. Every GPU is an EP group and holds all 4 experts. Each of 4 rings carries a
  // quarter of the bytes, half in each direction. Every GPU is the first of its node on one ring
  // and the last on another.
  const PlannedStep planned = even_case(2, 4, 4, 1).plan("contiguous", "alltoall");
  const std::int64_t sent = 4 * parameters * 2 * 2 * 7 / 8;
  EXPECT_EQ(summed(planned), std::vector<std::int64_t>(8, sent));
  for (const Op& op : planned.plan.ops) {
    if (op.stream != Stream::dp) continue;
    const ByteMatrix& traffic = op.exchange()->traffic;
    for (int g = 0; g < 8; ++g) {
      std::int64_t leaves = 0;
      for (const auto& entry : traffic.row(GpuId(g))) {
        if (entry.to.value / 4 != g / 4) leaves += traffic.bytes(entry).value;
      }
      EXPECT_EQ(leaves, sent / 4) << g;
    }
  }
}

TEST(GradientSum, NothingIsSummedInOneGroupOrWithoutABackwardPass) {
  EXPECT_TRUE(summed(even_case(4, 2, 8, 8).plan("contiguous", "alltoall")).empty());
  EXPECT_TRUE(summed(even_case(4, 2, 4, 2).plan("contiguous", "alltoall", false)).empty());
}

TEST(GradientSum, ShardsOfFsepAreSummedByThoseThatKeepThem) {
  // A rank keeps 1,536 of the 3,072 parameters of each of 4 experts. 4 groups sum their gradients.
  const HybridCase c = even_case(4, 2, 4, 2);
  const auto sent = summed(c.plan("{kind: fsep, planner: even, slots: 2}", "alltoall"));
  EXPECT_EQ(sent, std::vector<std::int64_t>(8, 4 * parameters / 2 * 2 * 2 * 3 / 4));
}

TEST(GradientSum, PartsThatDoNotDivideAreRoundedUp) {
  // An expert's 3,072 parameters among 5 holders: 615 each, of 2 bytes.
  const auto holders = summed(even_case(5, 2, 4, 2).plan("contiguous", "alltoall"));
  EXPECT_EQ(holders, std::vector<std::int64_t>(10, 2 * 615 * 2 * 2 * 4));
  // Each of 6 holders has 512 of them, 1,024 bytes. Nodes of 3 GPUs have 3 rings: 342 bytes each.
  const auto rings = summed(even_case(2, 3, 4, 1).plan("contiguous", "alltoall"));
  EXPECT_EQ(rings, std::vector<std::int64_t>(6, 4 * 3 * 342 * 2 * 5));
  // A rank keeps 615 parameters of each of 5 experts, together 3,075. Each of 2 groups sums 1,538.
  const auto shards =
      summed(even_case(2, 5, 5, 5).plan("{kind: fsep, planner: even, slots: 2}", "alltoall"));
  EXPECT_EQ(shards, std::vector<std::int64_t>(10, 1538 * 2 * 2));
}

TEST(GradientSum, CopiesOfALayerThatIsSharedByAllSumTheirParts) {
  // Each of 5 GPUs has 615 parameters of each of 4 experts, together 2,460. Each of 2 copies of the
  // layer sums 1,230 of them.
  const HybridCase c = even_case(5, 1, 4, 1);
  const PlacementContext context{.groups = EpGroups(c.topology, 1),
                                 .model = c.model,
                                 .experts = 4,
                                 .layers = 1,
                                 .recorded = {}};
  LayerDecision shared(Assignment(contiguous_placement(4, 5, 1), 1));
  shared.gradients = GradientLayout::summed;
  const auto sum = expert_ring(context, {&shared, &shared}, {"sum", 2, 2});
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(sent_by(sum->traffic), std::vector<std::int64_t>(10, 1230 * 2 * 2));
}

TEST(GradientSum, FsdpHasSummedThemByItself) {
  EXPECT_TRUE(summed(even_case(4, 2, 4, 2).plan("fsdp-ep", "alltoall")).empty());
}

TEST(GradientSum, CopiesReturnToTheirHomesBeforeThatIsSummed) {
  // In domains of 2 every GPU has copies of all 4 experts, but sums only its own 2.
  const HybridCase c = even_case(4, 2, 4, 2);
  const PlannedStep planned = c.hybrid("domains: 2, levels: flat");
  EXPECT_EQ(summed(planned), std::vector<std::int64_t>(8, 2 * parameters * 2 * 2 * 3 / 4));
  const auto& ops = planned.plan.ops;
  std::vector<OpId> reduces;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].key.stage == Stage::reduce && ops[i].stream == Stream::param) {
      reduces.emplace_back(static_cast<std::int64_t>(i));
    }
    if (ops[i].stream != Stream::dp) continue;
    ASSERT_FALSE(reduces.empty());
    for (const OpId reduce : reduces) {
      EXPECT_TRUE(std::find(ops[i].after.begin(), ops[i].after.end(), reduce) !=
                  ops[i].after.end());
    }
  }
}

TEST(GradientSum, OnlyTheEndOfTheStepWaitsForIt) {
  const PlannedStep planned = even_case(4, 2, 4, 2).plan("contiguous", "alltoall");
  const auto& ops = planned.plan.ops;
  std::vector<bool> sums(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) sums[i] = ops[i].stream == Stream::dp;
  EXPECT_EQ(std::count(sums.begin(), sums.end(), true), 1);
  for (const Op& op : ops) {
    for (const OpId after : op.after) EXPECT_FALSE(sums[after.index()]) << op.label;
  }
}

TEST(GradientSum, IsMadeEveryAccumulatedStep) {
  const HybridCase c = even_case(4, 2, 4, 2);
  const SystemSpec system = parse_system(
      "{name: t, source: test, routing: identity, placement: contiguous, dispatch: alltoall, "
      "schedule: sequential}",
      "test");
  PlannerOptions options{2, {0}, true, true};
  options.accumulate = 3;
  Planner planner(system, c.topology, c.model, c.trace, options);
  for (int step = 0; step < 7; ++step) {
    EXPECT_EQ(!summed(planner.plan(c.tokens.batch, step)).empty(), step == 2 || step == 5) << step;
  }
}

}  // namespace
}  // namespace moesim
