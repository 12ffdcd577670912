// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's dispatchers: the metadata of `alltoall`, and `allgather`.
#include <gtest/gtest.h>

#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

constexpr const char* megatron =
    "{kind: alltoall, metadata: {counts: true, probs: true, host_wait: 10 us}}";

TEST(AllToAll, OnRandomLayersSendsOneRowPerChoice) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    const RandomLayer layer(random);
    std::vector<PairCounts> expected(1);
    for (int t = 0; t < layer.token_count(); ++t) {
      for (int k = 0; k < layer.top_k; ++k) ++expected[0][{layer.source(t), layer.gpu(t, k)}];
    }
    const auto dispatch = layer.dispatch(megatron);
    ASSERT_NO_FATAL_FAILURE(expect_rows(*dispatch, layer, expected));
    if (trial % 20 == 0 && layer.per_rank > 0) {
      ASSERT_NO_THROW(prove(*dispatch, layer));
    }
  }
}

/// Two ranks of two experts; one token on rank 0 for {2, 3}, one on rank 1 for {0, 3}.
class Metadata : public testing::Test {
 protected:
  Metadata() {
    model_.hidden = 8;
    model_.experts = 4;
    model_.top_k = 2;
    model_.expert_ffn = 4;
  }
  Plan plan(const std::string& text) {
    return plan_of(*make_dispatch(text, bare_nodes(1, 2), 2, model_), tokens_, model_);
  }
  Tokens tokens_{2, 4, 2, 1, {2, 3, 0, 3}, 2};
  MoeModel model_;
};

TEST_F(Metadata, CountsOfAllExpertsGoBetweenAnyTwoRanksBeforeTheRows) {
  const Plan p = plan(megatron);
  const auto counts = exchanges(p, "dispatch-counts");
  ASSERT_EQ(counts.size(), 1u);  // only forward
  EXPECT_EQ(dense(*counts[0]), (std::vector<std::int64_t>{0, 32, 32, 0}));
  EXPECT_EQ(counts[0]->key.stage, Stage::other);
  const auto order = topological_order(p);
  const auto place = [&](const std::string& name) {
    return std::find_if(order.begin(), order.end(), [&](OpId id) { return p[id].label == name; }) -
           order.begin();
  };
  EXPECT_LT(place("permute"), place("dispatch-counts"));
  EXPECT_LT(place("dispatch-counts"), place("read-counts"));
  EXPECT_LT(place("read-counts"), place("dispatch-alltoall"));
  EXPECT_LT(place("dispatch-alltoall"), place("dispatch-probs"));
  EXPECT_LT(place("dispatch-probs"), place("sort"));
  int reads = 0;
  for (const Op& op : p.ops) {
    if (op.label != "read-counts") continue;
    EXPECT_EQ(*op.kernels(), Kernels(HostWork{10'000}));
    reads += static_cast<int>(op.group.size());
  }
  EXPECT_EQ(reads, 2);
}

TEST_F(Metadata, ProbabilitiesTakeTheWayOfTheRowsAndTheirGradientsReturn) {
  const Plan p = plan(megatron);
  // Rank 0 has two rows for rank 1; rank 1 one for rank 0 and one for itself.
  const auto probs = exchanges(p, "dispatch-probs");
  ASSERT_EQ(probs.size(), 1u);
  EXPECT_EQ(probs[0]->exchange()->traffic.at(GpuId(0), GpuId(1)), Bytes(8));
  EXPECT_EQ(probs[0]->exchange()->traffic.at(GpuId(1), GpuId(0)), Bytes(4));
  const auto back = exchanges(p, "combine-probs-grad");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0]->traffic().moved(), probs[0]->traffic().moved().transposed());
  EXPECT_TRUE(exchanges(p, "combine-probs").empty());
  EXPECT_TRUE(exchanges(p, "dispatch-probs-grad").empty());
}

TEST_F(Metadata, IsLeftOutUnlessAskedFor) {
  const Plan p = plan("alltoall");
  for (const Op& op : p.ops) {
    EXPECT_TRUE(op.exchange() == nullptr || op.key.stage != Stage::other) << op.label;
    EXPECT_NE(op.label, "read-counts");
  }
  EXPECT_THROW(make_dispatch("{kind: alltoall, metadata: {host_wait: 5 us}}"), Error);
}

// Reference oracle 4.6: W = 32, T = 1024, M = 2048, v = 2, K = 8, balanced: 32,505,856 bytes leave
// each GPU.
TEST(AllToAll, VolumeOfTheReference) {
  std::vector<int> ids;
  for (int t = 0; t < 32 * 1024; ++t) {
    for (int k = 0; k < 8; ++k) ids.push_back((t + k * 4) % 32);  // 8 of 32 ranks, in turn
  }
  const Tokens tokens(32, 32, 8, 1024, ids, 32);
  const auto counts = make_dispatch("alltoall")->count(tokens.view());
  for (std::size_t from = 0; from < 32; ++from) {
    std::int64_t rows = 0;
    for (std::size_t to = 0; to < 32; ++to) {
      rows += from == to ? 0 : counts.phases[0][from * 32 + to];
    }
    EXPECT_EQ(rows * 2048 * 2, 32505856);
  }
}

/// What reaches every rank from others, in all phases.
std::vector<std::int64_t> received(const RowCounts& counts) {
  std::vector<std::int64_t> rows(counts.gpus());
  for (const auto& phase : counts.phases) {
    for (std::size_t i = 0; i < phase.size(); ++i) {
      if (i / counts.gpus() != i % counts.gpus()) rows[i % counts.gpus()] += phase[i];
    }
  }
  return rows;
}

// Reference oracle 4.6: 130,023,424 bytes per rank, however skewed the routing.
TEST(AllGather, VolumeOfTheReferenceWhateverTheRouting) {
  std::mt19937 random(22);
  const Tokens uniform(32, 64, 2, 1024, random_ids(random, 32 * 1024, 64, 2), 32);
  std::vector<int> skewed_ids;
  for (int t = 0; t < 32 * 1024; ++t) skewed_ids.insert(skewed_ids.end(), {0, 1});
  const Tokens skewed(32, 64, 2, 1024, skewed_ids, 32);
  for (const Tokens* tokens : {&uniform, &skewed}) {
    for (const char* text : {"allgather", "{kind: allgather, algorithm: direct}"}) {
      const auto counts = make_dispatch(text)->count(tokens->view());
      for (const std::int64_t rows : received(counts)) EXPECT_EQ(rows * 2048 * 2, 130023424);
    }
  }
}

TEST(AllGather, OnRandomLayersBringsEveryRowToEveryRank) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(trial);
    const RandomLayer layer(random);
    const int ep = layer.shape.ep;
    std::vector<PairCounts> direct(1);
    for (int t = 0; t < layer.token_count(); ++t) {
      const int first = layer.source(t) / ep * ep;
      for (int to = first; to < first + ep; ++to) ++direct[0][{layer.source(t), to}];
    }
    const auto dispatch = layer.dispatch("{kind: allgather, algorithm: direct}");
    ASSERT_NO_FATAL_FAILURE(expect_rows(*dispatch, layer, direct));

    // By node: nodes of a run are equal here, so a row goes to its own index in every node.
    const int in_node = std::min(layer.shape.gpus, ep);
    const auto by_node = layer.dispatch("allgather");
    if (in_node == ep || in_node == 1) {
      ASSERT_NO_FATAL_FAILURE(expect_rows(*by_node, layer, direct));
    } else {
      std::vector<PairCounts> steps(2);
      for (int t = 0; t < layer.token_count(); ++t) {
        const int source = layer.source(t), first = source / ep * ep;
        for (int node = first; node < first + ep; node += in_node) {
          const int relay = node + source % in_node;
          ++steps[0][{source, relay}];
          for (int to = node; to < node + in_node; ++to) ++steps[1][{relay, to}];
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_rows(*by_node, layer, steps));
    }
    if (trial % 10 == 0 && layer.per_rank > 0) {
      ASSERT_NO_THROW(prove(*dispatch, layer));
      ASSERT_NO_THROW(prove(*by_node, layer));
    }
  }
}

TEST_F(Metadata, OfAnAllGatherAreMapAndProbabilitiesOfAllExperts) {
  const Plan p = plan("allgather");
  const auto bytes = [&](const std::string& name) {
    const auto found = exchanges(p, name);
    return found.size() == 1 ? found[0]->exchange()->traffic.at(GpuId(0), GpuId(1)) : Bytes(-1);
  };
  EXPECT_EQ(bytes("dispatch-allgather"), Bytes(8 * 2));
  EXPECT_EQ(bytes("dispatch-routing-map"), Bytes(4));
  EXPECT_EQ(bytes("dispatch-probs"), Bytes(4 * 4));
  EXPECT_EQ(bytes("combine-allgather"), Bytes(8 * 4));  // in fp32, as the probabilities
  EXPECT_EQ(bytes("dispatch-allgather-grad"), Bytes(8 * 4));
  EXPECT_EQ(bytes("combine-allgather-grad"), Bytes(8 * 2));
  EXPECT_EQ(bytes("combine-probs-grad"), Bytes(4 * 4));
  // Both rows arrive everywhere; experts select, and unpermute to all W x T = 2 rows.
  for (const Op& op : p.ops) {
    EXPECT_NE(op.label, "permute");
    EXPECT_NE(op.label, "unpermute");
    if (op.label == "reduce") {
      EXPECT_EQ(std::get<MemoryBound>(op.kernels()->of(0)).written, Bytes(2 * 16)) << op.label;
    }
  }
}

TEST_F(Metadata, ThatAllRanksComputeIsNotSent) {
  const Plan p = plan("{kind: allgather, maps: false}");
  EXPECT_EQ(exchanges(p, "dispatch-allgather").size(), 1U);
  EXPECT_TRUE(exchanges(p, "dispatch-routing-map").empty());
  EXPECT_TRUE(exchanges(p, "dispatch-probs").empty());
}

}  // namespace
}  // namespace moesim
