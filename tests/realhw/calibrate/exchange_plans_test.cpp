// SPDX-License-Identifier: Apache-2.0
// What a calibration's exchanges move, for clusters small enough to tell it.
#include "realhw/calibrate/exchange_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>

#include "tests/realhw/calibrate/clusters.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

const char* purpose_words(ExchangePurpose purpose) {
  switch (purpose) {
    case ExchangePurpose::overhead:
      return "overhead";
    case ExchangePurpose::table:
      return "table";
    case ExchangePurpose::check:
      return "check";
    case ExchangePurpose::together:
      return "together";
  }
  return "";
}

std::vector<std::string> plans_in_words(const Topology& topology) {
  std::vector<std::string> words;
  for (const ExchangePlan& plan : exchange_plans(topology, {})) {
    EXPECT_EQ(plan.micro.plan.name, plan.micro.name);
    EXPECT_EQ(plan.micro.plan.gpus, topology.gpu_count());
    words.push_back(fmt::format("{}: {}", purpose_words(plan.purpose), plan.micro.name));
  }
  return words;
}

/// The exchanges of a plan without those that bring the ranks together.
std::vector<const Op*> measured_exchanges(const MicroPlan& micro) {
  std::vector<const Op*> ops;
  for (const Op& op : micro.plan.ops) {
    if (op.key.kind != OpKind::settle) ops.push_back(&op);
  }
  return ops;
}
std::vector<const Op*> measured_exchanges(MicroPlan&&) = delete;

MicroPlan exchange_plan_named(const std::string& name, const Topology& topology,
                              const ExchangeSizes& sizes) {
  const auto plans = exchange_plans(topology, sizes);
  const auto found = std::ranges::find_if(
      plans, [&](const ExchangePlan& plan) { return plan.micro.name == name; });
  if (found == plans.end()) throw std::logic_error("no plan " + name);
  return found->micro;
}

/// What the first GPU sends to its first peer in each exchange.
std::vector<std::int64_t> bytes_to_first_peer(const MicroPlan& micro) {
  std::vector<std::int64_t> bytes;
  for (const Op* op : measured_exchanges(micro)) {
    const ByteMatrix& traffic = op->exchange()->traffic;
    const auto row = traffic.row(GpuId(0));
    bytes.push_back(row.empty() ? 0 : traffic.bytes(row.front()).value);
  }
  return bytes;
}

TEST(ExchangePlans, ListEveryPatternOfEveryLevel) {
  EXPECT_THAT(plans_in_words(switched_cluster(2, 4)),
              ElementsAre("overhead: overhead between nodes", "table: alltoall between nodes",
                          "check: sendrecv between nodes", "together: two at once between nodes",
                          "overhead: overhead inside a node", "table: alltoall inside a node",
                          "check: sendrecv inside a node", "together: two at once inside a node",
                          "check: alltoall in the whole cluster",
                          "together: between nodes and inside a node",
                          "check: uneven in the whole cluster"));
}

TEST(ExchangePlans, SendToOnePeerOnlyWhereThereAreMore) {
  EXPECT_THAT(
      plans_in_words(switched_cluster(1, 2)),
      ElementsAre("overhead: overhead inside a cluster", "table: alltoall inside a cluster",
                  "together: two at once inside a cluster", "check: uneven in the whole cluster"));
  EXPECT_THAT(
      plans_in_words(switched_cluster(1, 3)),
      ElementsAre("overhead: overhead inside a cluster", "table: alltoall inside a cluster",
                  "check: sendrecv inside a cluster", "together: two at once inside a cluster",
                  "check: uneven in the whole cluster"));
  const MicroPlan one =
      exchange_plan_named("sendrecv inside a cluster", switched_cluster(1, 3), ExchangeSizes());
  for (const Op* op : measured_exchanges(one)) {
    for (int g = 0; g < 3; ++g) EXPECT_EQ(op->exchange()->traffic.row(GpuId(g)).size(), 1u);
  }
}

TEST(ExchangePlans, BringAllRanksTogetherBeforeEveryExchangeOrTwoAtOnce) {
  for (const ExchangePlan& plan : exchange_plans(switched_cluster(2, 3), {})) {
    const std::size_t at_once = plan.purpose == ExchangePurpose::together ? 2 : 1;
    const auto& ops = plan.micro.plan.ops;
    ASSERT_EQ(ops.size() % (at_once + 1), 0u) << plan.micro.name;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      EXPECT_EQ(ops[op].key.kind == OpKind::settle, op % (at_once + 1) == 0) << plan.micro.name;
    }
  }
}

TEST(ExchangePlans, CountPeersInPowersOfTwoAndAllOfThem) {
  struct Case {
    int gpus;
    std::vector<std::size_t> peers;
  };
  for (const Case& c : {Case{2, {0, 1}}, Case{4, {0, 1, 2, 3}}, Case{6, {0, 1, 2, 4, 5}}}) {
    const MicroPlan micro = exchange_plan_named("overhead inside a cluster",
                                                switched_cluster(1, c.gpus), ExchangeSizes());
    std::vector<std::size_t> four_times, found;
    for (int i = 0; i < 4; ++i) {
      four_times.insert(four_times.end(), c.peers.begin(), c.peers.end());
    }
    for (const Op* op : measured_exchanges(micro)) {
      const ByteMatrix& traffic = op->exchange()->traffic;
      found.push_back(traffic.row(GpuId(0)).size());
      EXPECT_TRUE(is_probe(*op, found.back() == 0 ? Probe::empty : Probe::tiny));
      EXPECT_EQ(traffic.total().value, static_cast<std::int64_t>(found.back()) * c.gpus)
          << "a byte to each";
      EXPECT_EQ(op->stream, Stream::ep);
      EXPECT_EQ(op->group.size(), static_cast<std::size_t>(c.gpus));
    }
    EXPECT_EQ(found, four_times);
  }
}

TEST(ExchangePlans, GoFromSixtyFourBytesToTheMostThatAGpuSends) {
  const ExchangeSizes sizes{.longest = Seconds(1), .most = Bytes(1 << 17), .step = 2};
  const Topology three = switched_cluster(1, 3);
  EXPECT_THAT(bytes_to_first_peer(exchange_plan_named("alltoall inside a cluster", three, sizes)),
              ElementsAre(64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536));
  EXPECT_THAT(bytes_to_first_peer(
                  exchange_plan_named("alltoall inside a cluster", switched_cluster(1, 2), sizes))
                  .back(),
              1 << 17);
  ExchangeSizes twice = sizes;
  twice.most = Bytes(1 << 18);
  EXPECT_THAT(bytes_to_first_peer(exchange_plan_named("sendrecv inside a cluster", three, twice)),
              ElementsAre(64, 256, 1024, 4096, 16384, 65536, 1 << 18));
}

TEST(ExchangePlans, SendNoMoreThanTheMostEvenIfThatIsLittle) {
  const ExchangeSizes sizes{.longest = Seconds(1), .most = Bytes(3 << 12), .step = 2};
  const Topology four = switched_cluster(1, 4);
  EXPECT_THAT(bytes_to_first_peer(exchange_plan_named("alltoall inside a cluster", four, sizes)),
              ElementsAre(64, 256, 1024, 2048, 4096));
  EXPECT_THAT(bytes_to_first_peer(exchange_plan_named("two at once inside a cluster", four, sizes)),
              ElementsAre(64, 64, 256, 256, 1024, 1024, 4096, 4096));
  const ExchangeSizes three{.longest = Seconds(1), .most = Bytes(3 << 10), .step = 2};
  EXPECT_THAT(bytes_to_first_peer(exchange_plan_named("two at once inside a cluster", four, three)),
              ElementsAre(64, 64, 256, 256, 1024, 1024))
      << "as many as there are";
}

TEST(ExchangePlans, StopAtTheSizeThatTakesTheLongestTime) {
  const Topology pair = switched_cluster(1, 2);
  const auto largest = [&](double longest) {
    const ExchangeSizes sizes{.longest = Seconds(longest), .most = Bytes(256 << 20), .step = 2};
    return bytes_to_first_peer(exchange_plan_named("alltoall inside a cluster", pair, sizes))
        .back();
  };
  EXPECT_EQ(largest(2e-6), 1 << 17) << "200 kB at 100 GB/s";
  EXPECT_EQ(largest(4e-6), 1 << 18);
  EXPECT_EQ(largest(1e-9), 1 << 14) << "enough for a rate";
}

TEST(ExchangePlans, SendEachSizeToEveryPeer) {
  const Topology topology = switched_cluster(2, 2);
  const ExchangeSizes sizes{.longest = Seconds(1e-9), .most = Bytes(1 << 20), .step = 2};
  const auto check = [&](const std::string& name, const std::function<bool(int, int)>& peers) {
    const MicroPlan micro = exchange_plan_named(name, topology, sizes);
    for (const Op* op : measured_exchanges(micro)) {
      const ByteMatrix& traffic = op->exchange()->traffic;
      const Bytes size = traffic.bytes(traffic.row(GpuId(0)).front());
      for (int from = 0; from < 4; ++from) {
        for (int to = 0; to < 4; ++to) {
          EXPECT_EQ(traffic.at(GpuId(from), GpuId(to)), peers(from, to) ? size : Bytes(0))
              << name << ", " << from << " to " << to;
        }
      }
    }
  };
  check("alltoall between nodes", [](int from, int to) { return from / 2 != to / 2; });
  check("sendrecv between nodes", [](int from, int to) { return to == (from + 2) % 4; });
  check("alltoall inside a node",
        [](int from, int to) { return from / 2 == to / 2 && from != to; });
  check("alltoall in the whole cluster", [](int from, int to) { return from != to; });
}

TEST(ExchangePlans, StartTwoAtOnceOnTwoStreams) {
  const ExchangeSizes sizes{.longest = Seconds(1), .most = Bytes(1 << 18), .step = 2};
  const MicroPlan pairs =
      exchange_plan_named("between nodes and inside a node", switched_cluster(2, 3), sizes);
  const auto& ops = pairs.plan.ops;
  ASSERT_EQ(ops.size(), 12u) << "four times two exchanges after all have met";
  std::vector<std::int64_t> outside, inside;
  for (std::size_t i = 0; i < ops.size(); i += 3) {
    EXPECT_EQ(ops[i].key.kind, OpKind::settle);
    EXPECT_EQ(ops[i].after, i == 0 ? std::vector<OpId>() : std::vector<OpId>{OpId(i - 1)});
    EXPECT_EQ(ops[i + 1].stream, ops[i].stream) << "so that it need not wait";
    EXPECT_EQ(ops[i + 2].stream, Stream::ep_2);
    EXPECT_EQ(ops[i + 2].after, std::vector<OpId>{OpId(i)});
    outside.push_back(ops[i + 1].exchange()->traffic.at(GpuId(0), GpuId(3)).value);
    inside.push_back(ops[i + 2].exchange()->traffic.at(GpuId(0), GpuId(1)).value);
  }
  // The largest ones of each in coarse steps: a GPU has three peers outside, and two inside.
  EXPECT_THAT(outside, ElementsAre(1 << 10, 1 << 12, 1 << 14, 1 << 16));
  EXPECT_THAT(inside, ElementsAre(1 << 10, 1 << 12, 1 << 14, 1 << 16));
}

TEST(ExchangePlans, DrawUnevenTrafficAroundTheSize) {
  const Topology topology = switched_cluster(4, 8);
  // Entries go up to three times the size, so an exchange is planned for half of the time.
  const ExchangeSizes sizes{.longest = Seconds(6e-3), .most = Bytes(256 << 20), .step = 2};
  const MicroPlan uneven = exchange_plan_named("uneven in the whole cluster", topology, sizes);
  const auto ops = measured_exchanges(uneven);
  const auto even =
      bytes_to_first_peer(exchange_plan_named("alltoall in the whole cluster", topology, sizes));
  ASSERT_EQ(ops.size() + 1, even.size()) << "in steps of four";
  std::vector<std::int64_t> before;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const ByteMatrix& traffic = ops[i]->exchange()->traffic;
    const auto size = static_cast<double>(even[i]);
    EXPECT_NEAR(static_cast<double>(traffic.total().value), 32 * 31 * size, 0.2 * 32 * 31 * size);
    std::vector<std::int64_t> eighths;  // of the size, of all pairs
    std::vector<std::set<std::int64_t>> sent(32), received(32);
    for (std::size_t from = 0; from < 32; ++from) {
      EXPECT_EQ(traffic.at(GpuId(from), GpuId(from)), Bytes(0)) << "nothing to itself";
      for (std::size_t to = 0; to < 32; ++to) {
        const std::int64_t bytes = traffic.at(GpuId(from), GpuId(to)).value;
        EXPECT_LT(static_cast<double>(bytes), 3 * size);
        eighths.push_back(bytes * 8 / even[i]);
        sent[from].insert(bytes);
        received[to].insert(bytes);
      }
    }
    for (const auto& one : sent) EXPECT_GT(one.size(), 12u) << "receivers differ";
    for (const auto& one : received) EXPECT_GT(one.size(), 12u) << "senders differ";
    int same = 0;
    for (std::size_t pair = 0; pair < before.size(); ++pair) same += eighths[pair] == before[pair];
    EXPECT_LT(same, 32 * 32 / 2) << "so do exchanges";
    before = eighths;
  }
}

TEST(Peers, BeginWithThoseOfTheSamePlace) {
  const auto sets = peer_sets_of(switched_cluster(3, 2));
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].peers[1], (std::vector<GpuId>{GpuId(3), GpuId(5), GpuId(2), GpuId(4)}));
  EXPECT_EQ(sets[0].peers[4], (std::vector<GpuId>{GpuId(0), GpuId(2), GpuId(1), GpuId(3)}));
  EXPECT_EQ(sets[1].peers[4], std::vector<GpuId>{GpuId(5)});
  EXPECT_EQ(peer_sets_of(switched_cluster(1, 4))[0].peers[1],
            (std::vector<GpuId>{GpuId(2), GpuId(3), GpuId(0)}));
}

TEST(Peers, AreAllThoseOfLargerNodesAndNoneTwiceOfSmallerOnes) {
  const auto sets = peer_sets_of(unequal_nodes(2, 4));
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].name, "between nodes");
  EXPECT_EQ(sets[0].peers[1], (std::vector<GpuId>{GpuId(3), GpuId(4), GpuId(5), GpuId(2)}));
  EXPECT_EQ(sets[0].peers[5], (std::vector<GpuId>{GpuId(1), GpuId(0)}));
  EXPECT_EQ(sets[0].most(), 4);
  EXPECT_EQ(sets[1].peers[0], std::vector<GpuId>{GpuId(1)});
  EXPECT_EQ(sets[1].most(), 3);
  EXPECT_TRUE(peer_sets_of(unequal_nodes(1, 3))[1].peers[0].empty());
}

TEST(Peers, AreCutToTheirNumberAndTheBytes) {
  const PeerSets set = peer_sets_of(switched_cluster(3, 2))[0];
  const ByteMatrix three = set.traffic(3, Bytes(7));
  EXPECT_EQ(three.at(GpuId(1), GpuId(3)), Bytes(7));
  EXPECT_EQ(three.at(GpuId(1), GpuId(5)), Bytes(7));
  EXPECT_EQ(three.at(GpuId(1), GpuId(2)), Bytes(7));
  EXPECT_EQ(three.total(), Bytes(6 * 3 * 7));
  EXPECT_EQ(set.traffic(0, Bytes(7)).total(), Bytes(0));
  EXPECT_EQ(set.traffic(9, Bytes(7)).total(), Bytes(6 * 4 * 7)) << "no more than there are";
}

}  // namespace
}  // namespace moesim
