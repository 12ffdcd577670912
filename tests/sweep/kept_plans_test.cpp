// SPDX-License-Identifier: Apache-2.0
// Scenarios that plan alike share plans, and get what they would get by themselves.
#include "sim/sweep/kept_plans.h"

#include <gtest/gtest.h>

#include "sim/sweep/unit.h"

namespace moesim {
namespace {

SweepGrid bandwidths_of(const std::string& policies) {
  return SweepGrid::parse(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "layers: recorded\nsteps: 0:2\ntokens_per_rank: 16\naxes:\n"
      "  policy: " +
          policies +
          "\n"
          "  topology.nodes: [2, 4]\n"
          "  topology.node.nics.bandwidth: [10 GB/s, 50 GB/s, 100 GB/s]\n"
          "  topology.node.nics.latency: [1 us, 9 us]\n",
      "grid.yaml", {});
}

TEST(KeptPlans, GiveTheFiguresOfPlansOfTheirOwn) {
  const SweepGrid grid = bandwidths_of("[alltoall, eplb, hiermoe-hd, hybridep-exact]");
  UnitRunner all(grid, "v");
  for (std::int64_t unit = 0; unit < grid.units(); ++unit) {
    UnitRunner only(grid, "v");
    const auto shared = all.run(unit), own = only.run(unit);
    ASSERT_EQ(shared.size(), own.size());
    for (std::size_t r = 0; r < own.size(); ++r) {
      EXPECT_EQ(shared[r].state, own[r].state);
      ASSERT_EQ(shared[r].figures.size(), own[r].figures.size());
      for (std::size_t f = 0; f < own[r].figures.size(); ++f) {
        EXPECT_EQ(shared[r].figures[f].column, own[r].figures[f].column);
        EXPECT_EQ(shared[r].figures[f].value, own[r].figures[f].value)
            << unit << " " << own[r].figures[f].column;
      }
    }
  }
}

TEST(KeptPlans, AreOfEqualClustersButForRates) {
  const SweepGrid grid = bandwidths_of("[alltoall, dedup]");
  InputCache cache;
  const auto key = [&](std::int64_t unit) {
    const Scenario scenario = grid.unit(unit);
    return plan_key({scenario, open_shared_inputs(scenario, cache)});
  };
  EXPECT_EQ(key(0), key(5));   // another bandwidth and latency
  EXPECT_NE(key(0), key(6));   // more nodes
  EXPECT_NE(key(0), key(12));  // another policy
}

}  // namespace
}  // namespace moesim
