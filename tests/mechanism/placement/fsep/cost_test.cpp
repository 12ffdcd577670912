// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/cases.h"
#include "tests/mechanism/placement/fsep/tiered_links.h"

namespace moesim::fsep {
namespace {

/// The cost by its definition: S[i][e][d] pair by pair, ranks in ascending order.
Cost plainly(const LoadMatrix& loads, const SlotTable& slots, int g, const CostParameters& p,
             const Links& links, Counting counting) {
  const int ranks = loads.sources();
  std::vector<double> received(slots.size());
  std::vector<double> seconds_per_byte(slots.size());
  double byte_seconds = 0;
  for (int i = 0; i < ranks; ++i) {
    links(GpuId(i), seconds_per_byte);
    for (int e = 0; e < loads.experts(); ++e) {
      const auto copies = [&](int d) {
        const auto& held = slots[static_cast<std::size_t>(d)];
        return std::count(held.begin(), held.end(), ExpertId(e));
      };
      std::int64_t w = 0;
      for (int d = i / g * g; d < i / g * g + g; ++d) w += copies(d);
      const bool local = w > 0;
      for (int d = 0; d < ranks && !local; ++d) w += copies(d);
      const std::int64_t t = loads.at(GpuId(i), ExpertId(e));
      std::int64_t rest = t % w;
      for (int d = 0; d < ranks; ++d) {
        if (local && d / g != i / g) continue;
        const std::int64_t a = copies(d);
        const std::int64_t more = std::min<std::int64_t>(a, rest);
        rest -= more;
        const double each = counting == Counting::planner
                                ? static_cast<double>(t) / static_cast<double>(w)
                                : static_cast<double>(t / w);
        const double sent = static_cast<double>(a) * each + static_cast<double>(more);
        received[static_cast<std::size_t>(d)] += sent;
        byte_seconds += sent * seconds_per_byte[static_cast<std::size_t>(d)];
      }
    }
  }
  const double passes = p.activation_checkpointing ? 4 : 3;
  return {Seconds(4 * static_cast<double>(p.token.value) * byte_seconds),
          passes * *std::max_element(received.begin(), received.end()) * p.per_token_slot};
}

void expect_same(const Cost& a, const Cost& b) {
  EXPECT_NEAR(a.communication.value, b.communication.value, 1e-12 * b.communication.value);
  EXPECT_NEAR(a.computation.value, b.computation.value, 1e-12 * b.computation.value);
}

TEST(CostTest, OneSourceByHand) {
  // Rank 0 of 2 nodes x 2 sends 5 to expert 0 on ranks 0 and 1, and 4 to expert 1 on ranks 2, 3.
  const Placement placement(2, table({{0}, {0}, {1}, {1}}));
  const Reach reach(placement, 2);
  LoadMatrix loads(4, 2);
  loads.at(GpuId(0), ExpertId(0)) = 5;
  loads.at(GpuId(0), ExpertId(1)) = 4;
  CostParameters p;
  p.same_rank = BytesPerSecond(1e12);
  p.same_node = BytesPerSecond(10);
  p.other_node = BytesPerSecond(1);
  p.token = Bytes(1);
  p.per_token_slot = Seconds(1);
  // Planner: 5/2 each, one more for rank 0. Integers: 3 and 2.
  EXPECT_NEAR(cost(loads, reach, p).communication.value, 4 * (2.5 / 10 + 4), 1e-9);
  EXPECT_DOUBLE_EQ(cost(loads, reach, p).computation.value, 4 * 3.5);
  EXPECT_NEAR(cost(loads, reach, p, Counting::integer).communication.value, 4 * (2. / 10 + 4),
              1e-9);
  p.activation_checkpointing = false;
  EXPECT_DOUBLE_EQ(cost(loads, reach, p, Counting::integer).computation.value, 3 * 3);
}

TEST(CostTest, EqualsItsDefinitionOnAnyLinks) {
  const std::vector<SlotGrid> grids = {{8, 8, 2}, {16, 8, 1}, {12, 4, 3}, {6, 1, 2}, {8, 2, 2}};
  const CostParameters p;
  const Links uneven = [](GpuId source, std::span<double> row) {
    for (std::size_t d = 0; d < row.size(); ++d) {
      row[d] = 1e-11 * static_cast<double>(1 + (3 * source.index() + 5 * d) % 7);
    }
  };
  for (const SlotGrid& grid : grids) {
    const Links tiers = tiered_links(
        {{1, p.same_rank}, {grid.ranks_per_node, p.same_node}, {grid.ranks, p.other_node}});
    for (unsigned seed = 0; seed < 6; ++seed) {
      const int experts = 2 + static_cast<int>(seed) % (grid.slots() - 1);
      const LoadMatrix loads = random_loads(grid.ranks, experts, seed, 0.4 * seed);
      PlannerOptions options;
      options.even = false;
      const SlotTable slots = plan(loads, grid, options).choice().placed.slots;
      const Placement placement(experts, slots);
      const Reach reach(placement, grid.ranks_per_node);
      for (const Counting c : {Counting::planner, Counting::integer}) {
        const int g = grid.ranks_per_node;
        expect_same(cost(loads, reach, p, c), plainly(loads, slots, g, p, tiers, c));
        expect_same(cost(loads, reach, p, tiers, c), plainly(loads, slots, g, p, tiers, c));
        expect_same(cost(loads, reach, p, uneven, c), plainly(loads, slots, g, p, uneven, c));
      }
    }
  }
}

TEST(CostTest, TiersGoFromTheInnermost) {
  const Links links = tiered_links({{1, BytesPerSecond(8)},
                                    {2, BytesPerSecond(4)},
                                    {4, BytesPerSecond(2)},
                                    {8, BytesPerSecond(1)}});
  std::vector<double> row(6);
  links(GpuId(3), row);
  EXPECT_EQ(row, (std::vector<double>{0.5, 0.5, 0.25, 0.125, 1, 1}));
}

TEST(CostTest, RefusesOtherShapes) {
  const Placement placement(2, table({{0}, {1}}));
  EXPECT_THROW(Reach(placement, 3), Error);
  const Reach reach(placement, 1);
  EXPECT_THROW(cost(LoadMatrix(2, 3), reach, {}), Error);
  EXPECT_THROW(cost(LoadMatrix(3, 2), reach, {}), Error);
}

TEST(PlannerTest, SwitchesDropACandidate) {
  const LoadMatrix loads = random_loads(8, 8, 1, 1.0);
  PlannerOptions options;
  EXPECT_EQ(plan(loads, {8, 8, 2}, options).candidates.size(), 2u);
  options.even = false;
  EXPECT_EQ(plan(loads, {8, 8, 2}, options).choice().name, "pq");
  options.queue = false;
  EXPECT_THROW(plan(loads, {8, 8, 2}, options), Error);
  options.even = true;
  EXPECT_EQ(plan(loads, {8, 8, 2}, options).choice().name, "even");
  EXPECT_THROW(plan(random_loads(8, 5, 1), {8, 8, 2}, options), Error);
}

TEST(PlannerTest, LinksDecide) {
  int changed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const LoadMatrix loads = random_loads(16, 16, seed, 0.5);
    PlannerOptions slow;
    slow.links = [](GpuId source, std::span<double> row) {
      for (std::size_t d = 0; d < row.size(); ++d) row[d] = d / 4 == source.index() / 4 ? 0 : 1e-6;
    };
    PlannerOptions free;
    free.links = [](GpuId, std::span<double> row) { std::fill(row.begin(), row.end(), 0.0); };
    const Decision far = plan(loads, {16, 4, 2}, slow);
    const Decision near = plan(loads, {16, 4, 2}, free);
    EXPECT_EQ(near.choice().cost.communication.value, 0);
    for (const Candidate& c : near.candidates) {
      EXPECT_GE(c.cost.computation, near.choice().cost.computation);
    }
    for (const Candidate& c : far.candidates) {
      EXPECT_GE(c.cost.communication, far.choice().cost.communication);
    }
    changed += near.choice().name != far.choice().name ? 1 : 0;
  }
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace moesim::fsep
