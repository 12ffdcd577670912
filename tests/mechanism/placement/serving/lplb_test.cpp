// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/lplb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

/// The least possible load of the busiest rank: the densest set of ranks, counting what is fixed
/// there and the classes whose two copies both lie inside (Hakimi's theorem, for real weights).
double least_busiest(const lplb::Problem& problem) {
  const std::size_t ranks = problem.wiring.size();
  double best = 0;
  for (unsigned set = 1; set < 1u << ranks; ++set) {
    double load = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      if ((set >> r & 1) == 0) continue;
      load += problem.fixed[r];
      for (std::size_t d = 0; d < problem.wiring[r].size(); ++d) {
        const auto q = static_cast<std::size_t>(problem.wiring[r][d]);
        if (set >> q & 1) load += problem.movable[q][d];
      }
    }
    best = std::max(best, load / std::popcount(set));
  }
  return best;
}

double busiest(const lplb::Problem& problem, const std::vector<std::vector<double>>& stays) {
  std::vector<double> load = problem.fixed;
  for (std::size_t r = 0; r < load.size(); ++r) {
    for (std::size_t d = 0; d < problem.wiring[r].size(); ++d) {
      const auto q = static_cast<std::size_t>(problem.wiring[r][d]);
      load[q] += problem.movable[q][d] * stays[q][d];
      load[r] += problem.movable[q][d] * (1 - stays[q][d]);
    }
  }
  return *std::max_element(load.begin(), load.end());
}

TEST(LplbTest, OracleMovesTheClassThatCanMove) {
  const lplb::Problem problem{lplb::ring(2), {{0.75}, {0.25}}, {1, 0}};
  const lplb::Solution solution = lplb::solve(problem, 1);
  EXPECT_TRUE(solution.accepted);
  EXPECT_NEAR(solution.stays[0][0], 0.0001, 5e-5);
  EXPECT_NEAR(solution.stays[1][0], 0.9999, 5e-5);
  EXPECT_NEAR(solution.busiest, 1.0004, 5e-5);
  EXPECT_NEAR(solution.max_step, 0.0095, 5e-5);
  EXPECT_DOUBLE_EQ(least_busiest(problem), 1);
}

TEST(LplbTest, OracleSharesEvenlyWhatIsNotUnique) {
  const lplb::Problem problem{lplb::ring(2), {{1}, {1.0 / 3}}, {0, 0}};
  const lplb::Solution solution = lplb::solve(problem, 1);
  EXPECT_NEAR(solution.stays[0][0], 0.5, 5e-5);
  EXPECT_NEAR(solution.stays[1][0], 0.5, 5e-5);
  EXPECT_NEAR(solution.busiest, 0.6667, 5e-5);
  EXPECT_NEAR(least_busiest(problem), 2.0 / 3, 1e-12);
}

TEST(LplbTest, ScalesWithTheLoads) {
  const lplb::Problem problem{lplb::ring(2), {{750}, {250}}, {1000, 0}};
  EXPECT_NEAR(lplb::solve(problem, 1000).busiest, 1000.4, 0.05);
  EXPECT_FALSE(lplb::solve(problem, 0).accepted);
}

TEST(LplbTest, WiringsArePermutationsAsPublished) {
  const lplb::Wiring cube = lplb::cube();
  const std::vector<int> around = {3, 0, 1, 2, 7, 4, 5, 6};
  const std::vector<int> across = {6, 7, 4, 5, 0, 1, 2, 3};
  for (std::size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(cube[r], (std::vector<int>{around[r], across[r]}));
  }
  for (const lplb::Wiring& wiring :
       {lplb::cube(), lplb::hypercube(), lplb::torus(3, 4), lplb::ring(8)}) {
    for (std::size_t d = 0; d < wiring[0].size(); ++d) {
      std::set<int> reached;
      for (std::size_t r = 0; r < wiring.size(); ++r) {
        EXPECT_NE(wiring[r][d], static_cast<int>(r));
        reached.insert(wiring[r][d]);
      }
      EXPECT_EQ(reached.size(), wiring.size());
    }
  }
  EXPECT_EQ(lplb::torus(2, 3)[5], (std::vector<int>{2, 3}));
}

TEST(LplbTest, HypercubeJoinsNeighboursInGrayCodeOnceEach) {
  const lplb::Wiring wiring = lplb::hypercube();
  const auto gray = [](int r) { return static_cast<unsigned>(r % 4 ^ r % 4 / 2); };
  std::set<std::pair<int, int>> edges;
  for (int r = 0; r < 16; ++r) {
    for (const int q : wiring[static_cast<std::size_t>(r)]) {
      const unsigned differ = (gray(r) | gray(r / 4) << 2) ^ (gray(q) | gray(q / 4) << 2);
      EXPECT_EQ(std::popcount(differ), 1);
      edges.insert({std::min(r, q), std::max(r, q)});
    }
  }
  EXPECT_EQ(edges.size(), 32u);
}

TEST(LplbTest, AcceptedSolutionsAreNearTheExactOptimum) {
  Random random(11);
  int accepted = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const lplb::Wiring wiring = trial % 3 == 0   ? lplb::cube()
                                : trial % 3 == 1 ? lplb::ring(3 + trial % 5)
                                                 : lplb::torus(3, 3);
    lplb::Problem problem{wiring, {}, {}};
    for (const auto& row : wiring) {
      problem.movable.emplace_back();
      for (std::size_t d = 0; d < row.size(); ++d)
        problem.movable.back().push_back(random.uniform());
      problem.fixed.push_back(3 * random.uniform());
    }
    const lplb::Solution solution = lplb::solve(problem, 1);
    const double optimum = least_busiest(problem);
    const double reached = busiest(problem, solution.stays);
    EXPECT_GE(reached, optimum - 1e-9);
    if (!solution.accepted) continue;
    ++accepted;
    EXPECT_LE(reached, 1.05 * optimum) << trial;
  }
  EXPECT_GT(accepted, 50);
}

TEST(LplbTest, RefusesWiringThatIsNoPermutation) {
  EXPECT_THROW(lplb::solve({{{1}, {1}}, {{1}, {1}}, {0, 0}}, 1), Error);
  EXPECT_THROW(lplb::solve({{{1}, {2}}, {{1}, {1}}, {0, 0}}, 1), Error);
  EXPECT_THROW(lplb::solve({{}, {}, {}}, 1), Error);
}

TEST(LplbTest, SplitRuleDealsOutTheExactShareWhenStridesAreCoprime) {
  for (const std::int64_t total : {7, 100, 1000}) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < total; ++i) kept += lplb::keeps_original(i, total, 0.3);
    EXPECT_EQ(kept, (3 * total + 9) / 10) << total;
  }
  EXPECT_TRUE(lplb::keeps_original(0, 10, 0.2));   // 41 mod 10 = 1
  EXPECT_TRUE(lplb::keeps_original(1, 10, 0.2));   // 540 mod 10 = 0
  EXPECT_FALSE(lplb::keeps_original(2, 10, 0.2));  // 1039 mod 10 = 9
}

TEST(LplbTest, ReplicatesTheHeaviestOfEachRankAndSplitsABatch) {
  Random random(2);
  std::vector<double> history(64);
  for (double& load : history) load = 100 + random.below(100);
  const lplb::Layout layout = lplb::place(history, lplb::cube(), 2, 2, 16);
  const Placement placement(64, layout.table());
  ASSERT_EQ(placement.slots(), 16 * (4 + 4));
  LoadMatrix loads(16, 64);
  for (int s = 0; s < 16; ++s) {
    for (int e = 0; e < 64; ++e) loads.at(GpuId(s), ExpertId(e)) = random.below(40);
  }
  std::vector<double> batch;
  for (const std::int64_t load : loads.per_expert()) batch.push_back(static_cast<double>(load));
  const std::vector<lplb::Solution> groups = lplb::solve(layout, batch);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_TRUE(groups[0].accepted && groups[1].accepted);

  const Assignment assignment(placement, lplb::shares(layout, groups, loads));
  std::vector<std::int64_t> slots(static_cast<std::size_t>(placement.slots()));
  for (int s = 0; s < 16; ++s) {
    for (int e = 0; e < 64; ++e) {
      add_choices(assignment, GpuId(s), ExpertId(e), loads.at(GpuId(s), ExpertId(e)), slots);
    }
  }
  std::vector<double> before(16), after(16);
  double total = 0;
  for (int slot = 0; slot < placement.slots(); ++slot) {
    after[placement.gpu_of(SlotId(slot)).index()] +=
        static_cast<double>(slots[static_cast<std::size_t>(slot)]);
    total += static_cast<double>(slots[static_cast<std::size_t>(slot)]);
  }
  for (std::size_t g = 0; g < 16; ++g) {
    for (const ExpertId expert : layout.own[g]) before[g] += batch[expert.index()];
  }
  double sum = 0;
  for (const double load : before) sum += load;
  EXPECT_EQ(total, sum);
  EXPECT_LT(*std::max_element(after.begin(), after.end()),
            *std::max_element(before.begin(), before.end()));
  EXPECT_LT(*std::max_element(after.begin(), after.end()), 1.1 * sum / 16);
}

TEST(LplbTest, ExpertsOfAClassShareOneVariable) {
  // Two of each rank's three experts are replicated, both by the one edge of the ring.
  const lplb::Layout layout{
      lplb::ring(2),
      2,
      {{ExpertId(0), ExpertId(1), ExpertId(2)}, {ExpertId(3), ExpertId(4), ExpertId(5)}}};
  const std::vector<double> loads = {8, 6, 3, 2, 1, 1};
  const auto solutions = lplb::solve(layout, loads);
  ASSERT_EQ(solutions.size(), 1u);
  const lplb::Problem problem{lplb::ring(2), {{8 + 6}, {2 + 1}}, {3, 1}};
  EXPECT_EQ(solutions[0].stays, lplb::solve(problem, 8).stays);
  EXPECT_EQ(solutions[0].busiest, lplb::solve(problem, 8).busiest);
}

TEST(LplbTest, OneRankHasNowhereToMoveTo) {
  const lplb::Solution alone = lplb::solve({{{0}}, {{3}}, {1}}, 3);
  EXPECT_NEAR(alone.busiest, 4, 0.01);
}

TEST(LplbTest, RefusesMoreReplicasThanARankHasExperts) {
  const std::vector<double> loads(16, 1);
  EXPECT_THROW(lplb::place(loads, lplb::cube(), 2, 1, 8), Error);
  EXPECT_THROW(lplb::place(loads, lplb::cube(), 1, 1, 4), Error);
}

}  // namespace
}  // namespace moesim
