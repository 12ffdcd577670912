// SPDX-License-Identifier: Apache-2.0
// Costs per peer and links that yield less to many pairs, at every fidelity.
#include <fmt/format.h>

#include <algorithm>

#include "sim/plan/exchange_time.h"
#include "sim/topology/reader.h"
#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

/// Four GPUs around a switch: 50 GB/s to one pair, 25 GB/s to three; 10 us + 2 us per peer.
Topology crowded_star() {
  const std::string wire =
      ", bandwidth: 50 GB/s, latency: 0 us, crowded: {pairs: 3, bandwidth: 25 GB/s}";
  std::string text = "exchange_overhead: 10 us\npeer_overhead: 2 us\nvertices:\n";
  std::string links = "links:\n";
  for (const char* gpu : {"a", "b", "c", "d"}) {
    text += fmt::format("  - {{name: {}, kind: gpu, host: h, gpu: test}}\n", gpu);
    links += fmt::format("  - {{from: {}, to: s, class: port{}}}\n", gpu, wire);
  }
  return std::move(
      parse_topology(text + "  - {name: s, kind: nvswitch, host: h}\n" + links, "t.yaml").topology);
}

class Crowding : public testing::TestWithParam<BackendCase> {
 protected:
  double ms(const std::vector<Transfer>& transfers) {
    const Topology topology = crowded_star();
    PlanWriter w(4);
    w.exchange({0, 1, 2, 3}, transfers);
    return GetParam().make(topology, test_gpus(4))->run(w.plan()).makespan.value * 1e3;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Crowding,
                         testing::Values(port_case, served_case, flow_case, together_case,
                                         simgrid_case, analytic_case),
                         [](const auto& one) { return one.param.name; });

TEST_P(Crowding, OnePairHasTheWholeLink) {
  EXPECT_NEAR(ms({{0, 1, 50'000'000}, {0, 0, 1}}), 1.012, 1e-6);
}

TEST_P(Crowding, TwoPairsLieBetweenByTheInverse) {
  // 1/2 lies a quarter of the way from 1/3 to 1: 25 + 25 / 4 GB/s.
  EXPECT_NEAR(ms({{0, 1, 25'000'000}, {0, 2, 25'000'000}}), 50 / 31.25 + 0.014, 1e-6);
}

TEST_P(Crowding, ThreePairsHaveTheLeast) {
  EXPECT_NEAR(ms({{1, 0, 10'000'000}, {2, 0, 10'000'000}, {3, 0, 10'000'000}}), 1.2 + 0.016, 1e-6);
}

TEST_P(Crowding, AnExchangeOfNothingHasNoPeers) { EXPECT_NEAR(ms({{0, 0, 5}}), 0.010, 1e-9); }

// A link serves at even shares from when each begins: 3 ms from 0 on, 1 ms from 1 ms on.
TEST(SharedTimes, AreProcessorSharing) {
  const auto exchange = [](int link, double seconds, double overhead) {
    LinkLoads loads;
    loads.uses = {{LinkId(link), Bytes(1), Seconds(seconds), Seconds(0)}};
    loads.overhead = Seconds(overhead);
    return std::make_shared<const PricedExchange>(PricedExchange{loads, exchange_time(loads)});
  };
  const auto times =
      shared_times({exchange(0, 3e-3, 0), exchange(0, 1e-3, 1e-3), exchange(1, 2e-3, 0)});
  EXPECT_NEAR(times[0].value, 4e-3, 1e-12);
  EXPECT_NEAR(times[1].value, 3e-3, 1e-12);
  EXPECT_NEAR(times[2].value, 2e-3, 1e-12);
}

// Communicators of one phase that start together take the same at `port` and `analytic`.
TEST(SharedTimes, ArePortsTimes) {
  const Topology topology = nodes_of_8(4);
  std::mt19937 random(13);
  PlanWriter w(32);
  for (int c = 0; c < 8; ++c) {
    const std::vector<int> members = {c, 8 + c, 16 + (c + 3) % 8, 24 + c};
    std::vector<int> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    w.traffic(sorted, uneven(sorted, 32, 1e6 * (c + 1), 4, random));
  }
  Plan plan = w.plan();
  for (Op& op : plan.ops) op.key.layer = 0;
  const Timeline port = port_case.make(topology, test_gpus(32))->run(plan);
  const Timeline closed = analytic_case.make(topology, test_gpus(32))->run(plan);
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    EXPECT_NEAR(port.ops[op][0].end / closed.ops[op][0].end, 1, 1e-9);
  }
}

}  // namespace
}  // namespace moesim::test
