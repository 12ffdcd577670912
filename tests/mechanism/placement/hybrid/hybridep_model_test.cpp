// SPDX-License-Identifier: Apache-2.0
// What HybridEP chooses its domains by: levels, bandwidths, times before the experts, and Table IV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/engine/port_backend.h"
#include "sim/mechanism/ep_groups.h"
#include "sim/mechanism/placement/hybrid/hybridep.h"
#include "sim/mechanism/placement/hybrid/hybridep_levels.h"
#include "tests/mechanism/placement/hybrid/hybrid_case.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

TEST(HybridEpTest, LevelsStopAtHosts) {
  const auto workers = [](const std::string& name, int ep, DomainLevels levels) {
    const TopologyFile file =
        read_topology(std::string(MOESIM_ROOT "/topologies/") + name + ".yaml");
    return domain_workers(EpGroups(file.topology, ep).ranks(0), levels);
  };
  EXPECT_THAT(workers("hybridep-m", 16, DomainLevels::cluster), ElementsAre(2, 8));
  EXPECT_THAT(workers("hybridep-l", 32, DomainLevels::cluster), ElementsAre(4, 8));
  EXPECT_THAT(workers("hybridep-l", 32, DomainLevels::flat), ElementsAre(32));
  EXPECT_THAT(workers("hybridep-l", 8, DomainLevels::cluster), ElementsAre(8));
  EXPECT_THAT(workers("hybridep-l", 4, DomainLevels::cluster), ElementsAre(4));
  // Sockets and pairs of the same node are one level.
  EXPECT_THAT(workers("hiermoe-a6000", 32, DomainLevels::cluster), ElementsAre(4, 8));
}

TEST(HybridEpTest, TheStreamModelGetsTheClustersBandwidths) {
  const TopologyFile file = read_topology(MOESIM_ROOT "/topologies/hybridep-m.yaml");
  const auto levels = stream_levels(EpGroups(file.topology, 16), {2, 8});
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 1.25e9 / 8);  // 8 GPUs share 10 Gbit/s
  EXPECT_LE(levels[1].bandwidth.value, 16e9);
  EXPECT_GT(levels[1].bandwidth.value, 1e9);
  const Topology nodes = bare_nodes(2, 4);
  const auto even = stream_levels(EpGroups(nodes, 8), {2, 4});
  EXPECT_DOUBLE_EQ(even[0].bandwidth.value, 50e9);  // a NIC each
  EXPECT_DOUBLE_EQ(even[1].bandwidth.value, 400e9);
}

TEST(HybridEpTest, PreExpertTimeIsThatOfDenseGemms) {
  const Topology nodes = bare_nodes(1, 2);  // of h100-sxm: 989.4 TFLOP/s at 0.795
  MoeModel model;
  model.hidden = 4096;
  EXPECT_EQ(pre_expert_estimate(model, nodes, 1000), Seconds(0));
  model.attention = Attention{4 * 4096 * 4096, 0};
  EXPECT_NEAR(pre_expert_estimate(model, nodes, 1 << 16).value,
              2.0 * 65536 * 4 * 4096 * 4096 / (989.4e12 * 0.795), 1e-7);
  model.shared_experts = 2;
  model.shared_ffn = 8192;
  model.expert_matrices = 2;
  EXPECT_NEAR(pre_expert_estimate(model, nodes, 1 << 16).value,
              2.0 * 65536 * (4 + 8) * 4096 * 4096 / (989.4e12 * 0.795), 1e-7);
}

/// Table IV: 8 GPUs at 128 Gbit/s, one expert each. D, P_E and PE make up a model of plain GEMMs.
struct TableIv {
  std::string name;
  int hidden, ffn;  // P_E = 4 hidden x ffn bytes
  std::int64_t tokens;
  double pre_expert;
  int best;
  friend void PrintTo(const TableIv& t, std::ostream* out) { *out << t.name; }
};
class HybridEpTableIv : public testing::TestWithParam<TableIv> {};
INSTANTIATE_TEST_SUITE_P(All, HybridEpTableIv,
                         testing::Values(TableIv{"mix1", 62500, 19, 64, 0.49e-3, 2},
                                         TableIv{"mix2", 58750, 10, 64, 0.49e-3, 4},
                                         TableIv{"all1", 2350, 10, 640, 0.099e-3, 8},
                                         TableIv{"all2", 2350, 5, 640, 0.099e-3, 8}),
                         [](const auto& one) { return one.param.name; });

TEST_P(HybridEpTableIv, PortFollowsTheStreamModelToTheBestDomain) {
  const TableIv& p = GetParam();
  std::vector<int> ids;
  for (int t = 0; t < 8 * p.tokens; ++t) ids.push_back(t % 8);
  HybridCase c(1, 8, 8, 1, p.tokens, ids, 8, 16);
  c.model.hidden = p.hidden;
  c.model.expert_ffn = p.ffn;
  c.model.expert_matrices = 2;
  c.model.attention = Attention{std::int64_t{p.hidden} * 100'000, 1};
  const auto gpu = std::make_shared<GpuModel>();  // only attention takes time
  gpu->memory_bandwidth = BytesPerSecond(1e18);
  gpu->peak[DataType::bf16] = FlopsPerSecond(
      2.0 * static_cast<double>(p.tokens * c.model.attention->parameters) / p.pre_expert);
  const auto backend = make_port_backend(c.topology, GpuModels(8, gpu));
  const StreamLayer layer{.tokens = Bytes(p.tokens * p.hidden * 2),
                          .experts = Bytes(4LL * p.hidden * p.ffn),
                          .pre_expert = Seconds(p.pre_expert)};
  std::map<double, int> by_time;
  for (const int s : {1, 2, 4, 8}) {
    const double port =
        backend->run(c.hybrid(fmt::format("domains: {}", s), false).plan).makespan.value;
    const double model = domain_cost(layer, {{8, BytesPerSecond(16e9)}}, {s}).latency.value;
    EXPECT_NEAR(port / model, 1, 0.01) << s;
    by_time[port] = s;
  }
  EXPECT_EQ(by_time.begin()->second, p.best);
  const PlannedStep automatic =
      c.hybrid(fmt::format("domains: auto, pre_expert: {} ms", p.pre_expert * 1e3), false);
  EXPECT_EQ(automatic.layers[0].assignment().placement().slots_on(GpuId(0)), p.best);
}

}  // namespace
}  // namespace moesim
