// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "realhw/calibrate/exchange_plans.h"
#include "realhw/calibrate/kernel_plans.h"
#include "realhw/core/real_step.h"
#include "realhw/host/local_run.h"
#include "sim/base/data_files.h"
#include "sim/plan/check.h"
#include "sim/topology/reader.h"
#include "tests/realhw/calibrate/simulated_times.h"

namespace moesim {
namespace {

Topology random_topology(std::mt19937& random) {
  const int nodes = 1 + static_cast<int>(random() % 4);
  const int gpus = 2 * (1 + static_cast<int>(random() % 3));
  const bool pairs = random() % 2 == 0;
  return parse_topology(
             fmt::format("name: t\nnodes: {}\nnode:\n  gpu: h100-sxm\n  gpus: {}\n"
                         "  nvlink: {{kind: {}, bandwidth: 100 GB/s, latency: 1 us}}\n"
                         "  pcie: {{bandwidth: 30 GB/s, latency: 1 us{}}}\n"
                         "  nics: {{count: 1, bandwidth: 20 GB/s, latency: 3 us}}\nfabric: {{kind: "
                         "switch}}\n",
                         nodes, gpus, pairs ? "pairs" : "switch", pairs ? ", sockets: 1" : ""),
             "t.yaml")
      .topology;
}

TEST(ExchangePlans, AreValidAndNamedApartOnAnyCluster) {
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    const Topology topology = random_topology(random);
    std::set<std::string> names;
    for (const ExchangePlan& plan : exchange_plans(topology, {})) {
      EXPECT_NO_THROW(check_plan(plan.micro.plan)) << plan.micro.name;
      EXPECT_TRUE(names.insert(plan.micro.name).second) << plan.micro.name;
      EXPECT_EQ(plan.micro.plan.ops.front().key.kind, OpKind::settle);
      EXPECT_NE(plan.micro.plan.ops.back().key.kind, OpKind::settle);
    }
    EXPECT_GE(names.size(), 3u);
  }
}

TEST(ExchangePlans, HaveNoneForOneGpu) {
  const Topology one = parse_topology("nodes: 1\nnode: {gpu: h100-sxm, gpus: 1}\n", "t").topology;
  EXPECT_TRUE(exchange_plans(one, {}).empty());
}

TEST(ExchangePlans, KeepToTheLongestTimeAndTheMostBytes) {
  std::mt19937 random(2);
  const Topology topology = random_topology(random);
  for (const ExchangePlan& plan : exchange_plans(topology, {.most = Bytes(1 << 20)})) {
    for (const Op& op : plan.micro.plan.ops) {
      if (plan.purpose == ExchangePurpose::check) continue;  // uneven ones vary
      const ByteMatrix& traffic = op.exchange()->traffic;
      for (int g = 0; g < topology.gpu_count(); ++g) {
        Bytes sent(0);
        for (const auto& entry : traffic.row(GpuId(g))) sent += traffic.bytes(entry);
        EXPECT_LE(sent, Bytes(1 << 20));
      }
    }
  }
}

TEST(Peers, AreThoseAcrossOneLevelAndEveryTurnIsAPermutation) {
  const Topology topology =
      parse_topology(
          "nodes: 3\nnode:\n  gpu: h100-sxm\n  gpus: 4\n  nvlink: {kind: switch, bandwidth: 100 "
          "GB/s, "
          "latency: 1 us}\n  nics: {count: 4, bandwidth: 20 GB/s, latency: 3 us}\n"
          "fabric: {kind: switch}\n",
          "t")
          .topology;
  const auto sets = peer_sets_of(topology);
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].name, "between nodes");
  EXPECT_EQ(sets[0].most(), 8);
  EXPECT_EQ(sets[1].name, "inside a node");
  EXPECT_EQ(sets[1].most(), 3);
  for (const PeerSets& set : sets) {
    for (int turn = 0; turn < set.most(); ++turn) {
      std::set<GpuId> receivers;
      for (int g = 0; g < 12; ++g) {
        const GpuId to = set.peers[static_cast<std::size_t>(g)][static_cast<std::size_t>(turn)];
        EXPECT_EQ(to.value / 4 == g / 4, set.name == "inside a node");
        EXPECT_NE(to, GpuId(g));
        receivers.insert(to);
      }
      EXPECT_EQ(receivers.size(), 12u);
    }
  }
}

TEST(KernelPlans, AreValidAndComputeRightNumbers) {
  std::mt19937 random(3);
  const Topology topology = random_topology(random);
  const MoeModel model = tiny();
  const auto plans = kernel_plans(topology, model, {.rows = 16, .step = 4, .most = Bytes(1 << 16)});
  std::set<std::string> names;
  for (const MicroPlan& micro : plans) {
    ASSERT_NO_THROW(check_plan(micro.plan)) << micro.name;
    EXPECT_TRUE(names.insert(micro.name).second);
    const RealStep step(micro.plan, ExpertShape(model), micro.layers);
    auto ranks = all_ranks(step);
    run_locally(ranks);
    for (auto& rank : ranks) {
      const LocalRank& local = *rank;
      EXPECT_EQ(compare(step, local.program, rank->device, {}).wrong(), 0) << micro.name;
    }
  }
}

TEST(KernelPlans, HaveGemmsOfTheGroupsAndRowsThatTheyName) {
  std::mt19937 random(4);
  const Topology topology = random_topology(random);
  std::set<std::pair<std::size_t, std::int64_t>> found;
  for (const MicroPlan& micro : kernel_plans(topology, tiny(), {.rows = 64, .step = 4})) {
    for (const Op& op : micro.plan.ops) {
      if (op.label != "fc1") continue;
      const auto& gemm = std::get<GroupedGemm>(op.kernels()->of(0));
      EXPECT_EQ(gemm.k, 128);
      found.insert({gemm.m.size(), gemm.m.front()});
      for (const std::int64_t m : gemm.m) EXPECT_EQ(m, gemm.m.front());
    }
  }
  EXPECT_THAT(found, testing::IsSupersetOf({std::pair<std::size_t, std::int64_t>(1, 1),
                                            std::pair<std::size_t, std::int64_t>(1, 64)}));
}

TEST(OverlapPlan, IsValid) {
  std::mt19937 random(5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NO_THROW(check_plan(overlap_plan(random_topology(random), tiny(), {}).plan));
  }
}

}  // namespace
}  // namespace moesim
