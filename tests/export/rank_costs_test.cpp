// SPDX-License-Identifier: Apache-2.0
// What messages between ranks cost on a small cluster, by hand.
#include <gtest/gtest.h>

#include "sim/export/engine_placement.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

/// Two hosts of two GPUs: 1 us and 100 GB/s within, 2 us and 10 GB/s between them.
Topology two_hosts() {
  return std::move(
      parse_topology("source: test\nexchange_overhead: 7 us\nnodes: 2\nnode:\n  gpu: test\n"
                     "  gpus: 2\n  nvlink: {kind: switch, bandwidth: 100 GB/s, latency: 1 us}\n"
                     "  nics: {count: 2, bandwidth: 10 GB/s, latency: 2 us}\n"
                     "fabric: {kind: switch}\n",
                     "cluster.yaml")
          .topology);
}

TEST(RankCosts, AreLatencyAndBytesOfTheSlowestLink) {
  const auto costs = rank_costs(two_hosts(), Bytes(1'000'000));
  ASSERT_EQ(costs.size(), 4U);
  for (std::size_t from = 0; from < 4; ++from) {
    ASSERT_EQ(costs[from].size(), 4U);
    EXPECT_EQ(costs[from][from], Seconds(0));
    for (std::size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      const bool within = from / 2 == to / 2;
      // The bytes take 10 us or 100 us; the rest is the latency of the route.
      const double latency = costs[from][to].value - (within ? 10e-6 : 100e-6);
      EXPECT_GT(latency, 0);
      EXPECT_NEAR(latency, rank_costs(two_hosts(), Bytes(1))[from][to].value, 1e-9);
      EXPECT_NEAR(costs[to][from].value, costs[from][to].value, 1e-12);
    }
  }
}

TEST(RankCosts, AreWrittenInMicroseconds) {
  EXPECT_EQ(rank_costs_text({{Seconds(0), Seconds(1.5e-6)}, {Seconds(2.00000049e-3), Seconds(0)}}),
            "{\"rank_cost_matrix\":[[0.0,1.5],[2000.00049,0.0]]}\n");
}

}  // namespace
}  // namespace moesim
