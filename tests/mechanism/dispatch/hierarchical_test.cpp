// SPDX-License-Identifier: Apache-2.0
// The hierarchical dispatch against hand counts and an independent reading of its pseudo-code.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "sim/mechanism/ep_groups.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/planner/system.h"
#include "sim/topology/reader.h"
#include "tests/mechanism/layer_tokens.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

DispatchMaker read_hierarchical(const YamlMap& params);

namespace {

/// `nodes` nodes of `gpus` GPUs; with pairs and sockets if there are 8 of them.
Topology cluster(int nodes, int gpus) {
  const std::string nvlink =
      gpus == 8 ? "  nvlink: {kind: pairs, bandwidth: 30 GB/s, latency: 1 us}\n"
                  "  pcie: {bandwidth: 24 GB/s, latency: 1 us, sockets: 2, socket_link: "
                  "{bandwidth: 17 GB/s, latency: 1 us}}\n"
                : "  nvlink: {kind: switch, bandwidth: 450 GB/s, latency: 1 us}\n"
                  "  pcie: {bandwidth: 64 GB/s, latency: 1 us}\n";
  return std::move(
      parse_topology(fmt::format("source: test\nnodes: {}\nnode:\n  gpu: h100-sxm\n  gpus: {}\n{}"
                                 "  nics: {{count: 1, bandwidth: 25 GB/s, latency: 1 us}}\n{}",
                                 nodes, gpus, nvlink,
                                 nodes > 1 ? "fabric: {kind: switch}\n" : "fabric: {kind: none}\n"),
                     "test.yaml")
          .topology);
}

// Reference oracle 4.3: two nodes of two GPUs, one token per rank: {1,3} {1,3} {2,4} {1,2}.
TEST(Hierarchical, FourGpuExampleOfHierMoE) {
  const Topology topology = cluster(2, 2);
  const Tokens tokens(4, 4, 2, 1, {0, 2, 0, 2, 1, 3, 0, 1}, 4);
  int across = 0, local = 0, between_nodes = 0;
  const auto hd1 = make_dispatch("{kind: hierarchical, depth: 1}", topology, 4);
  const auto flat = hd1->rows(tokens.view());
  for (const RowMove& row : flat[0]) {
    (row.from == row.to ? local : across) += 1;
    between_nodes += row.from.value / 2 != row.to.value / 2 ? 1 : 0;
  }
  EXPECT_EQ(across, 7);
  EXPECT_EQ(between_nodes, 5);
  EXPECT_EQ(local, 1);
  const auto hd2 = make_dispatch("{kind: hierarchical, depth: 2}", topology, 4);
  const auto rows = hd2->rows(tokens.view());
  across = local = 0;
  for (const RowMove& row : rows[0]) (row.from == row.to ? local : across) += 1;
  EXPECT_EQ(across, 4);
  EXPECT_EQ(local, 3);
  across = local = 0;
  for (const RowMove& row : rows[1]) {
    (row.from == row.to ? local : across) += 1;
    EXPECT_EQ(row.from.value / 2, row.to.value / 2);
  }
  EXPECT_EQ(across, 5);
  EXPECT_EQ(local, 3);
}

TEST(Hierarchical, LevelsOfTheHierMoETestbed) {
  const TopologyFile file = read_topology(MOESIM_ROOT "/topologies/hiermoe-a6000.yaml");
  const RankSpace h = EpGroups(file.topology, 32).ranks(0);
  ASSERT_EQ(h.depth(), 4);
  std::vector<int> groups;
  for (int level = 0; level < 4; ++level) groups.push_back(h.level(level).size());
  EXPECT_EQ(groups, (std::vector<int>{1, 4, 8, 16}));
  // Section 1.1: Inter-level-1 has 8 communicators of 4 GPUs, Inter-level-3 16 of 2.
  EXPECT_EQ(h.level(1).across().size(), 8u);
  EXPECT_EQ(h.level(1).across()[0].size(), 4u);
  EXPECT_EQ(h.level(3).across().size(), 16u);
  EXPECT_EQ(EpGroups(file.topology, 8).ranks(0).depth(), 3);  // within a node: 1, 2, 4
}

/// What section 1.2 of the reference says, with its own arithmetic: rows of each phase.
std::vector<std::map<std::pair<int, int>, int>> enumerate(const std::vector<std::vector<int>>& gpus,
                                                          const std::vector<int>& source, int ep,
                                                          const std::vector<int>& u, int depth,
                                                          bool dedup) {
  std::vector<std::map<std::pair<int, int>, int>> phases(static_cast<std::size_t>(depth));
  for (std::size_t t = 0; t < gpus.size(); ++t) {
    std::vector<std::pair<int, std::vector<int>>> rows;  // holder, targets with repetitions
    if (dedup) {
      rows = {{source[t], gpus[t]}};
    } else {
      for (int g : gpus[t]) rows.push_back({source[t], {g}});
    }
    for (int phase = 0; phase < depth; ++phase) {
      std::vector<std::pair<int, std::vector<int>>> next;
      for (const auto& [holder, targets] : rows) {
        std::map<int, std::vector<int>> by_destination;
        for (int g : targets) {
          const int size = phase + 1 < depth ? ep / u[static_cast<std::size_t>(phase + 1)] : 1;
          const int to = phase + 1 < depth ? g / size * size + holder % size : g;
          by_destination[to].push_back(g);
        }
        for (const auto& [to, part] : by_destination) {
          ++phases[static_cast<std::size_t>(phase)][{holder, to}];
          next.push_back({to, part});
        }
      }
      rows = next;
    }
  }
  return phases;
}

TEST(Hierarchical, TenThousandRandomCasesEqualAnIndependentEnumeration) {
  std::mt19937 random(3);
  struct Shape {
    Topology topology;
    int ep;  // less than the ranks: every run holds replicas of all experts
    std::vector<int> u;
  };
  std::vector<Shape> shapes;
  shapes.push_back({cluster(2, 2), 4, {1, 2}});
  shapes.push_back({cluster(4, 4), 16, {1, 4}});
  shapes.push_back({cluster(4, 4), 8, {1, 2}});
  shapes.push_back({cluster(1, 8), 8, {1, 2, 4}});
  shapes.push_back({cluster(2, 8), 8, {1, 2, 4}});
  shapes.push_back({cluster(2, 8), 16, {1, 2, 4, 8}});
  for (int trial = 0; trial < 10000; ++trial) {
    const Shape& shape = shapes[random() % shapes.size()];
    const int ranks = shape.topology.gpu_count();
    const int ep = shape.ep;
    const int experts = ep * static_cast<int>(1 + random() % 3);
    const int top_k = static_cast<int>(1 + random() % static_cast<unsigned>(std::min(experts, 6)));
    const std::int64_t per_rank = random() % 3;
    const auto ids = random_ids(random, ranks * per_rank, experts, top_k);
    const Tokens tokens(ranks, experts, top_k, per_rank, ids, ep);
    const int depth = static_cast<int>(1 + random() % shape.u.size());
    const bool dedup = random() % 2 == 0;
    std::vector<std::vector<int>> gpus;
    std::vector<int> source;
    for (std::int64_t t = 0; t < ranks * per_rank; ++t) {
      source.push_back(static_cast<int>(t / per_rank));
      gpus.emplace_back();
      for (int k = 0; k < top_k; ++k) {
        const int expert = ids[static_cast<std::size_t>(t * top_k + k)];
        gpus.back().push_back(source.back() / ep * ep + expert / (experts / ep));
      }
    }
    const auto dispatch =
        make_dispatch(fmt::format("{{kind: hierarchical, depth: {}, dedup: {}}}", depth, dedup),
                      shape.topology, ep);
    const auto expected = enumerate(gpus, source, ep, shape.u, depth, dedup);
    const auto rows = dispatch->rows(tokens.view());
    const auto counts = dispatch->count(tokens.view());
    ASSERT_EQ(rows.size(), expected.size());
    for (std::size_t phase = 0; phase < rows.size(); ++phase) {
      ASSERT_EQ(listed(rows[phase]), expected[phase]) << "trial " << trial << " phase " << phase;
      std::map<std::pair<int, int>, int> counted;
      for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
          const auto n = counts.phases[phase][static_cast<std::size_t>(from * ranks + to)];
          if (n > 0) counted[{from, to}] = static_cast<int>(n);
        }
      }
      ASSERT_EQ(counted, expected[phase]) << "trial " << trial << " phase " << phase;
    }
  }
}

TEST(Hierarchical, ADepthBeyondTheLevelsIsAnErrorThatNamesIt) {
  try {
    make_dispatch("{kind: hierarchical, depth: 3}", cluster(2, 2), 4);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "error: 'dispatch.depth' is 3, but 4 ranks on 'test' nest only 2 deep\n"
                 "hint: moesim topology show prints the levels\n");
  }
  EXPECT_THAT([] { make_dispatch("{kind: hierarchical, depth: 3}", cluster(1, 1), 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("1 rank on 'test' nests only ")));
}

/// Tokens of the given width on the HierMoE testbed; who deduplicates how, and how deep.
int chosen_phases(int hidden, const Tokens& tokens, const Topology& topology) {
  MoeModel model;
  model.hidden = hidden;
  const auto doc = YamlDocument::from_text("{depth: auto}", "test");
  const auto dispatch = read_hierarchical(doc->root().map())({topology, model, 32});
  return dispatch->choose(tokens.view()).shape().size();
}

TEST(Hierarchical, AutomaticDepthGoesDeepForBigRowsAndStaysFlatForSmallOnes) {
  const TopologyFile file = read_topology(MOESIM_ROOT "/topologies/hiermoe-a6000.yaml");
  std::mt19937 random(5);
  const Tokens tokens(32, 128, 8, 256, random_ids(random, 32 * 256, 128, 8), 32);
  EXPECT_EQ(chosen_phases(1, tokens, file.topology), 1);  // latency decides
  EXPECT_GT(chosen_phases(4096, tokens, file.topology), 1);
}

TEST(Hierarchical, AutomaticDepthNeedsUniformGroups) {
  const TopologyFile file = read_topology(MOESIM_ROOT "/topologies/heterogeneous.yaml");
  const MoeModel model;
  const auto doc = YamlDocument::from_text("{depth: auto}", "test");
  const auto maker = read_hierarchical(doc->root().map());
  const int gpus = file.topology.gpu_count();
  EXPECT_THROW(maker({file.topology, model, gpus}), Error);
}

TEST(Hierarchical, CountsWithoutEffectAreAnError) {
  EXPECT_THROW(make_dispatch("{kind: hierarchical, depth: 1, counts: max}"), Error);
  EXPECT_THROW(make_dispatch("{kind: hierarchical, deepth: 1}"), Error);
  EXPECT_THROW(make_dispatch("{kind: hierarchical, depth: automatic}"), Error);
}

// Tutel 2DH, reference 2.1: inside the node to the target's index, then across between equal
// indices.
// Dedup rows stand for both choices of their token: 8 bytes of probabilities each. The counts of 4
// experts go between any two of the 4 GPUs, although each phase is among 2.
TEST(Hierarchical, MetadataOfTheFourGpuExample) {
  const Topology topology = cluster(2, 2);
  MoeModel model;
  model.hidden = 8, model.experts = 4, model.top_k = 2, model.expert_ffn = 4;
  const Tokens tokens(4, 4, 2, 1, {0, 2, 0, 2, 1, 3, 0, 1}, 4);
  const Plan p = plan_of(
      *make_dispatch("{kind: hierarchical, depth: 2, metadata: {counts: true, probs: true}}",
                     topology, 4, model),
      tokens, model);
  const auto counts = exchanges(p, "dispatch-counts");
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts[0]->group.size(), 4U);
  EXPECT_EQ(counts[0]->exchange()->traffic.off_diagonal(), Bytes(12 * 4 * 8));
  Bytes probs(0);
  for (const Op* op : exchanges(p, "dispatch-probs"))
    probs += op->exchange()->traffic.off_diagonal();
  EXPECT_EQ(probs, Bytes((4 + 5) * 2 * 4));
}

TEST(TwoHop, TurnsInsideTheNodeBeforeItCrosses) {
  const Topology topology = cluster(2, 2);
  const Tokens tokens(4, 4, 2, 1, {0, 3, 1, 2, 2, 3, 0, 1}, 4);
  const auto rows = make_dispatch("two-hop", topology, 4)->rows(tokens.view());
  // Rank 0's choices 0 and 3 live on GPUs 0 and 3, whose indices are 0 and 1 in their nodes.
  EXPECT_EQ(rows[0][0], (RowMove{GpuId(0), GpuId(0), TokenId(0), 0b01}));
  EXPECT_EQ(rows[0][1], (RowMove{GpuId(0), GpuId(1), TokenId(0), 0b10}));
  EXPECT_EQ(rows[1][1], (RowMove{GpuId(1), GpuId(3), TokenId(0), 0b10}));
  for (const RowMove& row : rows[0]) EXPECT_EQ(row.from.value / 2, row.to.value / 2);
  for (const RowMove& row : rows[1]) EXPECT_EQ(row.from.value % 2, row.to.value % 2);
}

// The same tokens with megatron-2dh: 4 rows of 16 bytes leave their GPU in either hop, each with a
// probability of 4 bytes, and nothing is padded.
TEST(TwoHop, InMegatronMovesExactRowsAndTheirMetadata) {
  const Topology topology = cluster(2, 2);
  MoeModel model;
  model.hidden = 8, model.experts = 4, model.top_k = 2, model.expert_ffn = 4;
  const Tokens tokens(4, 4, 2, 1, {0, 3, 1, 2, 2, 3, 0, 1}, 4);
  const SystemSpec system = read_system(MOESIM_ROOT "/models/system/megatron-2dh.yaml");
  const Plan p = plan_of(*system.dispatch.make({topology, model, 4}), tokens, model);
  const auto bytes = [&](const std::string& name) {
    Bytes sum(0);
    for (const Op* op : exchanges(p, name)) {
      EXPECT_FALSE(op->exchange()->padded) << name;
      sum += op->exchange()->traffic.off_diagonal();
    }
    return sum;
  };
  EXPECT_EQ(bytes("dispatch-intra"), Bytes(4 * 16));
  EXPECT_EQ(bytes("dispatch-inter"), Bytes(4 * 16));
  EXPECT_EQ(bytes("dispatch-probs"), Bytes(8 * 4));
  EXPECT_EQ(bytes("combine-probs-grad"), Bytes(8 * 4));
  EXPECT_EQ(bytes("dispatch-counts"), Bytes(12 * 4 * 8));
}

TEST(TwoHop, IsFlatOnOneNodeAndOnNodesOfOneGpu) {
  for (const auto& [nodes, gpus] : {std::pair{1, 4}, {4, 1}}) {
    for (const char* padding : {"none", "max"}) {
      const std::string text = fmt::format("{{kind: two-hop, padding: {}}}", padding);
      const auto dispatch = make_dispatch(text, cluster(nodes, gpus), 4);
      ASSERT_EQ(dispatch->shape().phases.size(), 1u) << nodes;
      EXPECT_EQ(dispatch->shape().phase(0).name, "alltoall");
      EXPECT_FALSE(dispatch->shape().local_work.transpose_sent);
    }
  }
}

}  // namespace
}  // namespace moesim
