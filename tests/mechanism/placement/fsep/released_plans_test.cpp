// SPDX-License-Identifier: Apache-2.0
// The planner against 240 plans that LAER-MoE's released planner (Fizzmy/LAER-MoE-AE at 72db5b7,
// greedy_load_balancing_heuristic_complete) made of loads drawn here. The file has a line for each:
// seed, ranks in nodes of 8, experts, slots of a rank, ten times the skew, cost in seconds, and the
// experts of all slots as digits of base 32. Draws in which two experts have equal loads, or equal
// loads per copy, are left out, because that planner's order is then its containers'.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "sim/mechanism/placement/fsep/planner.h"

namespace moesim::fsep {
namespace {

struct ReleasedPlan {
  unsigned seed = 0;
  int ranks = 0, experts = 0, slots = 0, tenths_of_skew = 0;
  double cost = 0;
  std::string plan;
};

std::vector<ReleasedPlan> released_plans() {
  std::ifstream in(MOESIM_ROOT "/tests/mechanism/placement/fsep/released_plans.txt");
  std::vector<ReleasedPlan> plans;
  for (ReleasedPlan p;
       in >> p.seed >> p.ranks >> p.experts >> p.slots >> p.tenths_of_skew >> p.cost >> p.plan;) {
    plans.push_back(p);
  }
  return plans;
}

/// Counts up to 999 from every rank, divided by (place of the expert)^skew, places being drawn.
LoadMatrix drawn_loads(const ReleasedPlan& p) {
  std::mt19937 random(p.seed);
  std::vector<int> place;
  for (int e = 0; e < p.experts; ++e) place.push_back(e);
  for (int e = p.experts - 1; e > 0; --e) {
    std::swap(place[static_cast<std::size_t>(e)], place[random() % static_cast<unsigned>(e + 1)]);
  }
  LoadMatrix loads(p.ranks, p.experts);
  for (int rank = 0; rank < p.ranks; ++rank) {
    for (int e = 0; e < p.experts; ++e) {
      const double weight =
          std::pow(place[static_cast<std::size_t>(e)] + 1, p.tenths_of_skew / 10.0);
      const auto count = static_cast<double>(random() % 1000U);
      loads.at(GpuId(rank), ExpertId(e)) = static_cast<std::int64_t>(count / weight);
    }
  }
  return loads;
}

std::string digits(const SlotTable& slots) {
  std::string text;
  for (const auto& rank : slots) {
    for (const ExpertId e : rank) text += "0123456789abcdefghijklmnopqrstuv"[e.index()];
  }
  return text;
}

TEST(ReleasedPlans, AreMadeHereToo) {
  const auto plans = released_plans();
  ASSERT_EQ(plans.size(), 240U);
  std::set<std::string> chosen;
  for (const ReleasedPlan& p : plans) {
    SCOPED_TRACE(p.seed);
    const Decision decision = plan(drawn_loads(p), {p.ranks, 8, p.slots});
    EXPECT_EQ(digits(decision.choice().placed.slots), p.plan);
    EXPECT_NEAR(decision.choice().cost.total().value, p.cost, 1e-12 * p.cost);
    chosen.insert(decision.choice().name);
  }
  EXPECT_EQ(chosen, (std::set<std::string>{"even", "pq"}));
}

}  // namespace
}  // namespace moesim::fsep
