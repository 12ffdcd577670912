// SPDX-License-Identifier: Apache-2.0
// The least that must pass the ports: cases worked out by hand, and every possible way of relaying
// a few tokens; none may beat it.
#include "sim/report/lower_bound.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "sim/plan/exchange_time.h"
#include "sim/report/token_needs.h"
#include "tests/plan/fixtures.h"
#include "tests/report/two_hosts.h"
#include "tests/topology/clusters.h"

namespace moesim::test {
namespace {

/// Nodes of so many GPUs: 100 GB/s and 1 us per NVLink hop, a 10 GB/s and 2 us NIC for each GPU.
Topology nodes_of(int nodes, int gpus) {
  const std::string text = "nodes: " + std::to_string(nodes) +
                           "\n"
                           "node:\n"
                           "  gpu: h100-sxm\n"
                           "  gpus: " +
                           std::to_string(gpus) +
                           "\n"
                           "  nvlink: {kind: switch, bandwidth: 100 GB/s, latency: 1 us}\n"
                           "  nics: {count: " +
                           std::to_string(gpus) +
                           ", bandwidth: 10 GB/s, latency: 2 us}\n"
                           "fabric: {kind: switch}\n";
  return std::move(parse_topology(text, "test").topology);
}

Topology nodes_of_two(int nodes) { return nodes_of(nodes, 2); }

// Two tokens of GPU 0 go to both GPUs of node 1, one token of GPU 1 to GPU 0 and GPU 2. Node 1 is
// entered three times: 3 x 1 MB / 20 GB/s = 150 us, after 4 us over two NIC hops. GPU 2 is entered
// three times as well, over 110 GB/s.
TEST(LowerBound, CountsOneRowPerTokenAndHost) {
  const std::vector<TokenNeeds> needs = {{GpuId(0), ids<GpuId>({2, 3})},
                                         {GpuId(0), ids<GpuId>({2, 3})},
                                         {GpuId(1), ids<GpuId>({0, 2})}};
  const LowerBound there = lower_bound(nodes_of_two(2), needs, Bytes(1'000'000), false);
  EXPECT_EQ(there.port, "into node1");
  EXPECT_EQ(there.bytes, Bytes(3'000'000));
  EXPECT_EQ(there.bandwidth, BytesPerSecond(20e9));
  EXPECT_EQ(there.between_hosts, Bytes(3'000'000));
  EXPECT_NEAR(there.transfer.value, 150e-6, 1e-12);
  EXPECT_NEAR(there.time.value, 154e-6, 1e-12);
  const LowerBound back = lower_bound(nodes_of_two(2), needs, Bytes(1'000'000), true);
  EXPECT_EQ(back.port, "into node0");  // where rows came from, first of equals
  EXPECT_NEAR(back.time.value, 154e-6, 1e-12);
}

// Three tokens of GPU 0 to GPU 1: 3 MB out of 110 GB/s after two hops of 1 us.
TEST(LowerBound, CountsOneRowPerTokenAndGpuInsideAHost) {
  const std::vector<TokenNeeds> needs(3, {GpuId(0), ids<GpuId>({1})});
  const LowerBound bound = lower_bound(nodes_of_two(2), needs, Bytes(1'000'000), false);
  EXPECT_EQ(bound.port, "into node0.gpu1");
  EXPECT_EQ(bound.between_hosts, Bytes(0));
  EXPECT_NEAR(bound.time.value, 3e6 / 110e9 + 2e-6, 1e-12);
}

// A row to each of two neighbours: 2 MB out of 110 GB/s, of which 1 MB comes to each.
TEST(LowerBound, CountsWhatLeavesAGpu) {
  const std::vector<TokenNeeds> needs = {{GpuId(0), ids<GpuId>({1})}, {GpuId(0), ids<GpuId>({2})}};
  const LowerBound there = lower_bound(nodes_of(1, 3), needs, Bytes(1'000'000), false);
  EXPECT_EQ(there.port, "out of node0.gpu0");
  EXPECT_NEAR(there.time.value, 2e6 / 110e9 + 2e-6, 1e-12);
  const LowerBound back = lower_bound(nodes_of(1, 3), needs, Bytes(1'000'000), true);
  EXPECT_EQ(back.port, "into node0.gpu0");
  EXPECT_NEAR(back.time.value, 2e6 / 110e9 + 2e-6, 1e-12);
}

// Hosts of one GPU: 1 MB into the second one at 1 GB/s.
TEST(LowerBound, NamesTheHostOfEveryGpu) {
  const std::vector<TokenNeeds> needs = {{GpuId(0), ids<GpuId>({1})}};
  const LowerBound bound = lower_bound(two_hosts(), needs, Bytes(1'000'000), false);
  EXPECT_EQ(bound.port, "into node1");
  EXPECT_NEAR(bound.time.value, 1e-3, 1e-12);
}

/// A pipeline stage numbers its hosts by itself, vertices keep those of the cluster.
TEST(LowerBound, IsThatOfTheHostsOfAStage) {
  const Topology stage = nodes_of_two(4).of_gpus(ids<GpuId>({4, 5, 6, 7}));
  const std::vector<PortLinks> hosts = links_of_ports(stage).hosts.in;
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(most_of_port(stage, hosts[0], Bytes(1)), BytesPerSecond(20e9));
  EXPECT_EQ(most_of_port(stage, hosts[1], Bytes(1)), BytesPerSecond(20e9));
  const std::vector<TokenNeeds> needs(3, {GpuId(0), ids<GpuId>({2, 3})});
  const LowerBound bound = lower_bound(stage, needs, Bytes(1'000'000), false);
  EXPECT_EQ(bound.port, "into node3");
  EXPECT_NEAR(bound.time.value, 154e-6, 1e-12);
}

TEST(LowerBound, OfNothingIsNothing) {
  const LowerBound bound = lower_bound(nodes_of_two(1), {}, Bytes(10), false);
  EXPECT_EQ(bound.time, Seconds(0));
  EXPECT_EQ(bound.port, "");
}

// The farthest target counts where bytes do not: 1 B to the other node takes 4 us.
TEST(LowerBound, WaitsForTheFarthestTarget) {
  const LowerBound bound =
      lower_bound(nodes_of_two(2), {{GpuId(0), ids<GpuId>({1, 2})}}, Bytes(1), false);
  EXPECT_NEAR(bound.farthest.value, 4e-6, 1e-12);
  EXPECT_NEAR(bound.time.value, 4e-6, 1e-9);
}

// Links of 10 GB/s for 1 MB, 4 GB/s for 10 MB: 1 MB takes 100 us, 10 MB at once 2.5 ms but in
// tenths 1 ms. The same link below its first point, where the rate of that point holds.
TEST(LowerBound, TakesTheBestRateOfAnySplitOfTheBytes) {
  const Topology topology = std::move(parse_topology("nodes: 1\n"
                                                     "node:\n"
                                                     "  gpu: h100-sxm\n"
                                                     "  gpus: 2\n"
                                                     "  nvlink:\n"
                                                     "    kind: switch\n"
                                                     "    latency: 1 us\n"
                                                     "    bandwidth: [{size: 1 MB, rate: 10 GB/s},"
                                                     " {size: 10 MB, rate: 4 GB/s}]\n",
                                                     "test")
                                          .topology);
  for (const int rows : {1, 2, 10, 100}) {
    const std::vector<TokenNeeds> needs(static_cast<std::size_t>(rows),
                                        {GpuId(0), ids<GpuId>({1})});
    for (const bool back : {false, true}) {
      const LowerBound bound = lower_bound(topology, needs, Bytes(1'000'000), back);
      EXPECT_EQ(bound.bandwidth, BytesPerSecond(10e9));
      EXPECT_NEAR(bound.transfer.value, rows * 100e-6, 1e-12);
    }
  }
  PortBytes bytes{Ports<std::int64_t>(1), Ports<std::int64_t>(2)};
  bytes.gpus.in[1] = 10'000'000;
  EXPECT_NEAR(time_at_best_rate(bytes, topology).value, 1e-3, 1e-12);
}

TEST(NeedsOf, FollowsEveryChoiceToItsLastHolder) {
  Plan plan{"plan", 4, {}};
  const auto add = [&plan](Stage stage, Pass pass, std::vector<RowMove> rows) {
    Op op = exchange("x", {0, 1, 2, 3}, matrix(4, 1, {}));
    op.key.stage = stage;
    op.key.pass = pass;
    std::get<Exchange>(op.work).rows = std::move(rows);
    plan.add(std::move(op));
  };
  const auto row = [](int from, int to, int token, Choices choices) {
    return RowMove{GpuId(from), GpuId(to), TokenId(token), choices};
  };
  add(Stage::dispatch, Pass::forward, {row(0, 2, 0, 0b11), row(1, 1, 1, 0b1), row(3, 0, 2, 0b1)});
  add(Stage::dispatch, Pass::forward, {row(2, 2, 0, 0b1), row(2, 3, 0, 0b10)});
  add(Stage::combine, Pass::forward, {row(3, 0, 0, 0b1)});
  add(Stage::dispatch, Pass::backward, {row(0, 1, 0, 0b1)});
  const std::vector<TokenNeeds> expected = {{GpuId(0), ids<GpuId>({2, 3})},
                                            {GpuId(3), ids<GpuId>({0})}};
  EXPECT_EQ(needs_of(plan), expected);
}

// An all-gather brings rows to everybody: rows that carry no choice are not needed, wherever they
// come first.
TEST(NeedsOf, LeavesOutRowsWithoutChoices) {
  Plan plan{"plan", 3, {}};
  Op op = exchange("x", {0, 1, 2}, matrix(3, 1, {}));
  op.key.stage = Stage::dispatch;
  const auto row = [](int from, int to, int token, Choices choices) {
    return RowMove{GpuId(from), GpuId(to), TokenId(token), choices};
  };
  std::get<Exchange>(op.work).rows = {row(2, 1, 0, 0), row(0, 0, 0, 0), row(0, 1, 0, 0),
                                      row(0, 2, 0, 0b1), row(1, 0, 1, 0)};
  plan.add(std::move(op));
  EXPECT_EQ(needs_of(plan), (std::vector<TokenNeeds>{{GpuId(0), ids<GpuId>({2})}}));
}

/// An exchange with these rows of `row` bytes.
void add_rows(Plan& plan, int layer, Stage stage, Bytes row, std::vector<RowMove> rows) {
  std::vector<std::array<std::uint32_t, 3>> entries;
  for (const RowMove& each : rows) {
    entries.push_back({static_cast<std::uint32_t>(each.from.value),
                       static_cast<std::uint32_t>(each.to.value), 1});
  }
  Op op = exchange("x", {0, 1, 2, 3}, matrix(4, static_cast<int>(row.value), std::move(entries)));
  op.key.layer = layer;
  op.key.stage = stage;
  std::get<Exchange>(op.work).rows = std::move(rows);
  plan.add(std::move(op));
}

// In each of two layers a token of GPU 0 goes to both GPUs of node 1, with a row of 1 MB for each,
// and comes back as two rows of 2 MB. One row per host would do: 4 MB into node 0 at 20 GB/s.
TEST(PerfectDedup, CountsATokenOncePerHostGpuAndStage) {
  const auto row = [](int from, int to, Choices choices) {
    return RowMove{GpuId(from), GpuId(to), TokenId(0), choices};
  };
  Plan plan{"plan", 4, {}};
  for (const int layer : {0, 1}) {
    add_rows(plan, layer, Stage::dispatch, Bytes(1'000'000), {row(0, 2, 0b1), row(0, 3, 0b10)});
    add_rows(plan, layer, Stage::combine, Bytes(2'000'000), {row(2, 0, 0b1), row(3, 0, 0b10)});
  }
  const Topology topology = nodes_of_two(2);
  const PortBytes least = least_bytes(plan, topology);
  const auto megabytes = [](std::vector<std::int64_t> all) {
    for (std::int64_t& each : all) each /= 1'000'000;
    return all;
  };
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(least.between_hosts, 6'000'000);
  EXPECT_EQ(megabytes(least.hosts.in), (List{4, 2}));
  EXPECT_EQ(megabytes(least.hosts.out), (List{2, 4}));
  EXPECT_EQ(megabytes(least.gpus.in), (List{4, 0, 2, 2}));
  EXPECT_EQ(megabytes(least.gpus.out), (List{2, 0, 4, 4}));
  EXPECT_NEAR(time_at_best_rate(least, topology).value, 200e-6, 1e-12);
}

/// Who sends a token to each GPU; -1: nobody.
using Parents = std::array<int, 4>;

/// Whether every target hangs on the source.
bool delivers(const Parents& parents, const TokenNeeds& need) {
  for (int g = 0; g < 4; ++g) {
    const bool target =
        std::find(need.targets.begin(), need.targets.end(), GpuId(g)) != need.targets.end();
    const bool sent = parents[static_cast<std::size_t>(g)] >= 0;
    if (target && !sent) return false;
    int at = g;
    for (int hops = 0; sent && GpuId(at) != need.source; ++hops) {
      at = parents[static_cast<std::size_t>(at)];
      if (at < 0 || hops == 4) return false;
    }
  }
  return true;
}

/// All ways of relaying one token among four GPUs.
std::vector<Parents> all_ways(const TokenNeeds& need) {
  std::vector<Parents> ways;
  for (int code = 0; code < 625; ++code) {
    Parents parents;
    int rest = code;
    bool sensible = true;
    for (int g = 0; g < 4; ++g, rest /= 5) {
      const int parent = rest % 5 - 1;
      parents[static_cast<std::size_t>(g)] = parent;
      if (parent == g || (GpuId(g) == need.source && parent >= 0)) sensible = false;
    }
    if (sensible && delivers(parents, need)) ways.push_back(parents);
  }
  return ways;
}

/// Transfer time of all tokens over all links, as if every hop of every token were in flight at
/// once: less than any real order of the hops takes.
Seconds transfer_of(const Topology& topology, const std::vector<const Parents*>& ways,
                    std::int64_t row, bool back) {
  std::vector<std::int64_t> bytes(16);
  for (const Parents* way : ways) {
    for (std::size_t g = 0; g < 4; ++g) {
      if ((*way)[g] >= 0) bytes[static_cast<std::size_t>((*way)[g]) * 4 + g] += row;
    }
  }
  const ByteMatrix traffic = ByteMatrix::from_dense(4, bytes);
  return price(topology, back ? traffic.transposed() : traffic)->alone.transfer;
}

TEST(LowerBound, NoWayOfRelayingBeatsIt) {
  const std::int64_t row = 1'000'000;
  const Topology clusters[] = {
      nodes_of_two(2),
      std::move(parse_topology(moesim::testing::nvswitch_nodes(4, 1, 1, "{kind: switch}"), "test")
                    .topology)};
  std::mt19937 random(1);
  int reached = 0;
  for (int round = 0; round < 60; ++round) {
    const Topology& topology = clusters[round % 2];
    std::vector<TokenNeeds> needs;
    std::vector<std::vector<Parents>> ways;
    for (int token = 0; token < 2; ++token) {
      TokenNeeds need{GpuId(random() % 4), {}};
      for (int g = 0; g < 4; ++g) {
        if (GpuId(g) != need.source && random() % 2 == 0) need.targets.emplace_back(g);
      }
      if (need.targets.empty()) continue;
      ways.push_back(all_ways(need));
      needs.push_back(std::move(need));
    }
    if (needs.size() < 2) continue;
    for (const bool back : {false, true}) {
      Seconds best(1);
      for (const Parents& a : ways[0]) {
        for (const Parents& b : ways[1]) {
          best = std::min(best, transfer_of(topology, {&a, &b}, row, back));
        }
      }
      const LowerBound bound = lower_bound(topology, needs, Bytes(row), back);
      EXPECT_LE(bound.transfer.value, best.value * (1 + 1e-12)) << "round " << round;
      reached += best.value <= bound.transfer.value * (1 + 1e-12) ? 1 : 0;
    }
  }
  EXPECT_GT(reached, 20);  // it is not an empty bound
}

/// The least rows again, token by token and host by host.
TEST(LowerBound, CountsAsAnEnumerationDoes) {
  std::mt19937 random(2);
  const Topology topology = nodes_of_two(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<TokenNeeds> needs;
    std::int64_t between = 0;
    for (int token = 0; token < 20; ++token) {
      TokenNeeds need{GpuId(random() % 8), {}};
      std::set<int> hosts;
      for (int g = 0; g < 8; ++g) {
        if (GpuId(g) == need.source || random() % 3 != 0) continue;
        need.targets.emplace_back(g);
        if (g / 2 != need.source.value / 2) hosts.insert(g / 2);
      }
      if (need.targets.empty()) continue;
      between += std::ssize(hosts);
      needs.push_back(std::move(need));
    }
    EXPECT_EQ(lower_bound(topology, needs, Bytes(7), false).between_hosts, Bytes(7 * between));
  }
}

}  // namespace
}  // namespace moesim::test
