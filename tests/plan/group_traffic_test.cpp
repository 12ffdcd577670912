// SPDX-License-Identifier: Apache-2.0
// Traffic of groups, read either way: as its turned copy moves, and at that price.
#include "sim/base/group_traffic.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "sim/plan/priced.h"
#include "tests/plan/fixtures.h"

namespace moesim::test {
namespace {

using Random = std::mt19937;

/// Some of 12 GPUs, and what they may send each other, to themselves too.
struct Sample {
  Group group;
  ByteMatrix matrix;
};
Sample sample(Random& random) {
  std::vector<GpuId> gpus;
  for (int g = 0; g < 12; ++g) {
    if (random() % 2 == 0) gpus.emplace_back(g);
  }
  if (gpus.size() < 2) gpus = ids<GpuId>({3, 8});
  ByteMatrix matrix(Bytes(1 + random() % 1000));
  std::vector<std::uint32_t> row(gpus.size());
  for (std::size_t from = 0; from < gpus.size(); ++from) {
    for (auto& units : row)
      units = random() % 3 == 0 ? 0 : static_cast<std::uint32_t>(random() % 9999);
    matrix.add_dense_row(row);
  }
  return {std::move(gpus), std::move(matrix)};
}

/// Two hosts of 6 GPUs; no two links are alike, nor the directions of one.
Topology lopsided(Random& random) {
  Topology::Parts parts;
  parts.name = "lopsided";
  parts.classes = {{"in", Tier::host}, {"out", Tier::fabric}};
  parts.exchange_overhead = Seconds(3e-6);
  parts.peer_overhead = Seconds(1e-7);
  const auto join = [&](std::int64_t a, std::int64_t b, int link_class) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      parts.links.push_back(
          {.from = VertexId(from),
           .to = VertexId(to),
           .bandwidth = BytesPerSecond(1e9 * static_cast<double>(1 + random() % 50)),
           .latency = Seconds(1e-7 * static_cast<double>(1 + random() % 90)),
           .link_class = link_class});
    }
  };
  parts.vertices = {{"leaf", VertexKind::leaf, -1},
                    {"switch0", VertexKind::nvswitch, 0},
                    {"switch1", VertexKind::nvswitch, 1}};
  Level cluster{"cluster", std::vector<int>(12, 0), 1};
  for (int g = 0; g < 12; ++g) {
    parts.vertices.push_back({"gpu" + std::to_string(g), VertexKind::gpu, g / 6});
    parts.gpus.emplace_back(3 + g);
    parts.gpu_model.emplace_back("test");
    join(3 + g, 1 + g / 6, 0);
  }
  for (const int host : {0, 1}) join(1 + host, 0, 1);
  parts.levels = {std::move(cluster)};
  return Topology(std::move(parts));
}

using Flows = std::map<std::pair<GpuId, GpuId>, std::int64_t>;
Flows flows_of(const GroupTraffic& traffic) {
  Flows flows;
  traffic.for_each([&](GpuId from, GpuId to, Bytes bytes) {
    EXPECT_TRUE(flows.emplace(std::pair(from, to), bytes.value).second);
  });
  return flows;
}

TEST(GroupTraffic, ATransposedMatrixMovesWhatItsTurnedCopyDoes) {
  Random random(1);
  for (int trial = 0; trial < 50; ++trial) {
    const auto [group, matrix] = sample(random);
    const ByteMatrix turned = matrix.transposed();
    const GroupTraffic view{matrix, group, true}, copy{turned, group};
    const Flows flows = flows_of(view);
    EXPECT_EQ(flows, flows_of(copy));
    EXPECT_NE(flows, flows_of({matrix, group}));
    EXPECT_EQ(view.moved(), turned);
    for (const GpuId from : group) {
      for (const GpuId to : group) {
        const auto flow = flows.find({from, to});
        EXPECT_EQ(view.at(from, to).value, flow == flows.end() ? 0 : flow->second);
        EXPECT_EQ(view.at(from, to), copy.at(from, to));
      }
    }
  }
}

TEST(GroupTraffic, AMatrixOverAllGpusHasThoseOfItsGroups) {
  Random random(2);
  for (int trial = 0; trial < 50; ++trial) {
    const auto [group, matrix] = sample(random);
    std::vector<std::int64_t> dense(144);
    GroupTraffic{matrix, group}.for_each([&](GpuId from, GpuId to, Bytes bytes) {
      dense[from.index() * 12 + to.index()] = bytes.value;
    });
    const ByteMatrix among = ByteMatrix::from_dense(12, dense).among(group);
    EXPECT_EQ(flows_of({among, group}), flows_of({matrix, group}));
    const Group all = Group::first(matrix.ranks());
    EXPECT_EQ(matrix.among(all).identity(), matrix.identity());
  }
}

void expect_equal(const PricedExchange& a, const PricedExchange& b) {
  EXPECT_EQ(a.loads.uses, b.loads.uses);
  EXPECT_EQ(a.loads.latency, b.loads.latency);
  EXPECT_EQ(a.loads.overhead, b.loads.overhead);
  EXPECT_EQ(a.alone.total(), b.alone.total());
}

TEST(GroupTraffic, CostsWhatItsTurnedCopyCosts) {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const Topology topology = lopsided(random);
    const auto [group, matrix] = sample(random);
    const ByteMatrix turned = matrix.transposed();
    const ExchangePrice back = price(topology, {matrix, group, true});
    expect_equal(*back, *price(topology, {turned, group}));
    EXPECT_NE(back->loads.uses, price(topology, {matrix, group})->loads.uses);
  }
}

TEST(GroupTraffic, OfAGroupCostsWhatItCostsAmongAllGpus) {
  Random random(4);
  for (int trial = 0; trial < 50; ++trial) {
    const Topology topology = lopsided(random);
    const auto [group, matrix] = sample(random);
    std::vector<std::int64_t> dense(144);
    GroupTraffic{matrix, group}.for_each([&](GpuId from, GpuId to, Bytes bytes) {
      dense[from.index() * 12 + to.index()] = bytes.value;
    });
    expect_equal(*price(topology, {matrix, group}),
                 *price(topology, ByteMatrix::from_dense(12, dense)));
  }
}

// R rounds are R exchanges of 1 / R of the bytes, one after the other, that are launched once.
TEST(GroupTraffic, RoundsFollowEachOther) {
  Random random(5);
  for (int trial = 0; trial < 50; ++trial) {
    const Topology topology = lopsided(random);
    const auto [group, matrix] = sample(random);
    const int rounds = 1 + static_cast<int>(random() % 14);
    const ByteMatrix whole = matrix.with_unit(matrix.unit() * rounds);
    const ExchangeTime one = price(topology, {matrix, group})->alone;
    const ExchangeTime all = price(topology, {whole, group, false, rounds})->alone;
    EXPECT_EQ(all.overhead, one.overhead);
    const double expected = rounds * (one.total() - one.overhead).value;
    EXPECT_NEAR((all.total() - all.overhead).value, expected, 1e-12 * expected);
  }
}

/// Bytes that go round a ring take each of its hops once in as many rounds as it has hops.
TEST(GroupTraffic, RoundsOfARingPayTheMeanOfItsHops) {
  Random random(8);
  for (int trial = 0; trial < 50; ++trial) {
    const Topology topology = lopsided(random);
    std::vector<GpuId> gpus = sample(random).group.list();
    const auto members = static_cast<int>(gpus.size());
    ByteMatrix traffic(Bytes(64));
    double sum = 0, most = 0;
    for (int m = 0; m < members; ++m) {
      const ByteMatrix::Entry entry{GpuId((m + 1) % members), 3};
      traffic.add_row({&entry, 1});
      const auto& [from, to] = std::pair(gpus[static_cast<std::size_t>(m)],
                                         gpus[static_cast<std::size_t>((m + 1) % members)]);
      double hop = 0;
      const std::vector<Path> paths = topology.paths(from, to);
      for (const LinkId link : paths.front().links) hop += topology.link(link).latency.value;
      sum += hop;
      most = std::max(most, hop);
    }
    const Group group{std::move(gpus)};
    EXPECT_NEAR(topology.loads({traffic, group, false, 5, true}).latency.value, 5 * sum / members,
                1e-15);
    EXPECT_NEAR(topology.loads({traffic, group, false, 5}).latency.value, 5 * most, 1e-15);
  }
}

// No rounds: it continues with an exchange that has begun.
TEST(GroupTraffic, NoRoundsTakeTheTimeOfTheirBytes) {
  Random random(7);
  for (int trial = 0; trial < 50; ++trial) {
    const Topology topology = lopsided(random);
    const auto [group, matrix] = sample(random);
    const ExchangeTime one = price(topology, {matrix, group})->alone;
    const ExchangeTime more = price(topology, {matrix, group, false, 0})->alone;
    EXPECT_EQ(more.overhead, Seconds(0));
    EXPECT_EQ(more.latency, Seconds(0));
    EXPECT_EQ(more.transfer, one.transfer);
  }
}

TEST(PricedPlan, PricesByMatrixWayRoundsAndGroup) {
  Random random(6);
  const Topology topology = lopsided(random);
  const ByteMatrix traffic = matrix(2, 1000, {{0, 1, 5}, {1, 0, 70}});
  const auto op = [&](std::initializer_list<int> gpus, bool transposed, int rounds) {
    Op made = exchange("x", gpus, traffic);
    auto& work = std::get<Exchange>(made.work);
    work.transposed = transposed;
    work.rounds = rounds;
    return made;
  };
  Plan plan{"n", 12, {}};
  for (int again = 0; again < 2; ++again) {
    plan.add(op({0, 7}, false, 1));
    plan.add(op({0, 7}, true, 1));
    plan.add(op({0, 7}, false, 6));
    plan.add(op({2, 7}, false, 1));
  }
  check_plan(plan);
  const PricedPlan priced(plan, topology);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(priced[OpId(i)], priced[OpId(i + 4)]);  // one price, in one place
    expect_equal(*priced[OpId(i)], *price(topology, plan[OpId(i)].traffic()));
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(priced[OpId(i)]->alone.total(), priced[OpId(j)]->alone.total());
    }
  }
}

}  // namespace
}  // namespace moesim::test
