// SPDX-License-Identifier: Apache-2.0
// The ops of one layer on two GPUs, small enough to check in the head.
#include "sim/planner/layer/layer_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/base/data_files.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/planner/layer/chunk_count.h"
#include "sim/planner/layer/phase_exchange.h"
#include "sim/topology/reader.h"
#include "tests/mechanism/layer_tokens.h"
#include "tests/planner/schedule/sequential.h"

namespace moesim {

DispatchMaker read_dedup(const YamlMap& params);

namespace {

/// Two GPUs of two experts; GPU 0 holds a token with experts {2, 3}, GPU 1 one with {0, 3}; dedup.
LayerWork toy_work() {
  LayerWork work{LayerDecision(Assignment(contiguous_placement(4, 2, 2), 2))};
  work.number = 5;
  work.tokens_per_rank = {1, 1};
  work.counts.gpu_count = 2;
  work.counts.phases = {{0, 1, 1, 1}};
  work.counts.slots = {1, 0, 1, 2};
  return work;
}

std::vector<std::string> names_on(const Plan& plan, int gpu) {
  std::vector<std::string> names;
  for (const Op& op : plan.ops) {
    if (op.group.contains(GpuId(gpu))) names.push_back(op.label);
  }
  return names;
}

class LayerOpsTest : public testing::Test {
 protected:
  LayerOpsTest() { plan_.gpus = 2, use_dedup(2); }
  /// Every run of `ep` GPUs exchanges by itself.
  void use_dedup(int ep, const std::string& params = "{}") {
    const auto doc = YamlDocument::from_text(params, "test");
    dispatch_ = read_dedup(doc->root().map())({topology_.topology, model_, ep});
    layers_[0].dispatch = dispatch_.get();
  }
  LayerOps& ops() { return step_.emplace(plan_, model_, layers_).ops; }

  TopologyFile topology_ = read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml",
                                         {parse_override("nodes=1"), parse_override("node.gpus=2"),
                                          parse_override("node.nics.count=2")});
  MoeModel model_ = toy_model();
  std::unique_ptr<Dispatch> dispatch_;
  std::vector<LayerWork> layers_ = {toy_work()};
  Plan plan_;
  std::optional<StepOps> step_;
};

// Fused permutation has no kernels that bring rows into the order of experts, or sum them.
TEST_F(LayerOpsTest, FusedPermutationRunsNoSortAndNoReduce) {
  use_dedup(2, "{permute: fused}");
  issue_sequentially(ops(), true);
  check_plan(plan_);
  int exchanges = 0;
  for (const Op& op : plan_.ops) {
    EXPECT_NE(op.key.kind, OpKind::sort);
    EXPECT_NE(op.key.kind, OpKind::reduce);
    exchanges += op.exchange() != nullptr ? 1 : 0;
  }
  EXPECT_EQ(exchanges, 4);
  EXPECT_EQ(names_on(plan_, 1)[3], "fc1");
}

// Only three scores of the four experts are computed.
TEST_F(LayerOpsTest, AGateComputesTheScoresThatItsRoutingAsksFor) {
  layers_[0].gate_outputs = 3;
  issue_sequentially(ops(), true);
  std::vector<GroupedGemm> gates;
  for (const Op& op : plan_.ops) {
    if (op.key.kind != OpKind::gate) continue;
    gates.push_back(std::get<GroupedGemm>(op.kernels()->each().front()));
  }
  ASSERT_EQ(gates.size(), 3u);  // forward, two gradients
  EXPECT_EQ(gates[0].n, 3);
  EXPECT_EQ(gates[0].k, 8);
  EXPECT_EQ(gates[1].k, 3);
  EXPECT_EQ(gates[2].k, 3);
}

// LatentMoE (arXiv 2601.18089): rows of 4 instead of 8 values travel to experts of 4 x 6.
TEST_F(LayerOpsTest, ExpertsInALatentTakeNarrowRows) {
  model_.latent = 4;
  use_dedup(2);
  issue_sequentially(ops(), true);
  check_plan(plan_);
  const std::vector<std::string> names = names_on(plan_, 1);
  EXPECT_EQ(std::vector(names.begin(), names.begin() + 12),
            (std::vector<std::string>{"gate", "latent-down", "permute", "dispatch-alltoall", "sort",
                                      "fc1", "activation", "fc2", "reduce", "combine-alltoall",
                                      "unpermute", "latent-up"}));
  std::map<std::string, GroupedGemm> products;
  for (const Op& op : plan_.ops) {
    if (op.exchange() != nullptr) {
      EXPECT_EQ(op.exchange()->traffic.total(), Bytes(3 * 4 * 2)) << op.label.text();
    } else if (const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->each().front())) {
      products[op.label] = *gemm;
    }
  }
  const DataType type = DataType::bf16;
  EXPECT_EQ(products.at("latent-down"), (GroupedGemm{{1}, 4, 8, type}));
  EXPECT_EQ(products.at("latent-up"), (GroupedGemm{{1}, 8, 4, type}));
  EXPECT_EQ(products.at("latent-up-dgrad"), (GroupedGemm{{1}, 4, 8, type}));
  EXPECT_EQ(products.at("latent-down-dgrad"), (GroupedGemm{{1}, 8, 4, type}));
  EXPECT_EQ(products.at("latent-down-wgrad"), (GroupedGemm{{1}, 8, 4, type}));
  EXPECT_EQ(products.at("fc1").n, 12);
  EXPECT_EQ(products.at("fc1").k, 4);
  EXPECT_EQ(products.at("fc2").n, 4);
  // Backward, gradients by the sums of results come before the exchange, those by tokens last.
  const auto place = [&](const std::string& name) {
    return std::ranges::find(names, name) - names.begin();
  };
  EXPECT_LT(place("latent-up-dgrad"), place("fc2-dgrad"));
  EXPECT_GT(place("latent-down-dgrad"), place("fc1-dgrad"));
}

TEST_F(LayerOpsTest, ForwardRunsItsKernelsInOrder) {
  issue_sequentially(ops(), false);
  check_plan(plan_);
  EXPECT_EQ(
      names_on(plan_, 1),
      (std::vector<std::string>{"gate", "permute", "dispatch-alltoall", "sort", "fc1", "activation",
                                "fc2", "reduce", "combine-alltoall", "unpermute"}));
}

TEST_F(LayerOpsTest, KernelsHaveTheShapesOfTheRouting) {
  issue_sequentially(ops(), false);
  for (const Op& op : plan_.ops) {
    if (op.label == "fc1") {
      EXPECT_EQ(std::get<GroupedGemm>(op.kernels()->of(1)),
                (GroupedGemm{{1, 2}, 12, 8, DataType::bf16}));
    }
    // GPU 1 receives two rows of 16 bytes and expands them to three choices.
    if (op.label == "sort") {
      EXPECT_EQ(std::get<MemoryBound>(op.kernels()->of(1)), (MemoryBound{Bytes(32), Bytes(48)}));
    }
  }
}

TEST_F(LayerOpsTest, CombineMirrorsDispatch) {
  LayerOps& o = ops();
  issue_sequentially(o, true);
  check_plan(plan_);
  std::vector<const Exchange*> exchanges;
  for (const Op& op : plan_.ops) {
    if (op.exchange() != nullptr) exchanges.push_back(op.exchange());
  }
  ASSERT_EQ(exchanges.size(), 4u);
  EXPECT_EQ(exchanges[0]->traffic.at(GpuId(0), GpuId(1)), Bytes(16));
  for (const std::size_t i : {1, 2, 3}) {  // all of one matrix, once in memory
    EXPECT_EQ(exchanges[i]->traffic.identity(), exchanges[0]->traffic.identity());
    EXPECT_EQ(exchanges[i]->transposed, i % 2 == 1);
  }
}

TEST_F(LayerOpsTest, EveryGroupOfRanksExchangesByItself) {
  use_dedup(1);
  layers_[0].counts.phases = {{2, 0, 0, 2}};
  issue_sequentially(ops(), false);
  check_plan(plan_);
  int exchanges = 0;
  for (const Op& op : plan_.ops) exchanges += op.exchange() != nullptr ? 1 : 0;
  EXPECT_EQ(exchanges, 4);
}

TEST_F(LayerOpsTest, AnExchangeThatMovesNothingAlthoughTokensLeaveIsAnError) {
  layers_[0].counts.phases = {{0, 0, 0, 0}};
  try {
    issue_sequentially(ops(), false);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "dispatch-alltoall of layer 5 moves nothing although its ranks hold 2 tokens");
  }
}

TEST_F(LayerOpsTest, TrafficOfAPhaseCountsRows) {
  const PhaseTraffic traffic = phase_traffic(layers_[0], 0);
  ASSERT_EQ(traffic.groups.size(), 1u);
  EXPECT_EQ(traffic.rows[0].total(), Bytes(3));
  const auto exchanges = phase_exchanges(layers_[0], 0, traffic, Bytes(16), false);
  ASSERT_EQ(exchanges.size(), 1u);
  EXPECT_EQ(exchanges[0].exchange.traffic.total(), Bytes(3 * 16));
}

TEST_F(LayerOpsTest, ThreeMatricesMultiplyAndReadTwoHalves) {
  model_.expert_ffn = 4096;
  const EpGroups groups(topology_.topology, 2);
  const GpuModel gpu = read_gpu_model(data_file("models/gpu", *groups.gpu_models().begin()));
  const auto time = [&](int matrices, bool backward) {
    model_.expert_matrices = matrices;
    return ChunkCount(groups, model_, DataType::bf16, backward).time(layers_[0], 1);
  };
  // GPU 1 has the most rows, 1 and 2 of its experts.
  const auto more = [&](int passes, int memory) {
    const auto product = [&](int n) { return gpu.time(GroupedGemm{{1, 2}, n, 8, DataType::bf16}); };
    const Bytes half(3 * 4096 * 2);
    return passes * (product(2 * 4096) - product(4096)) +
           memory * (gpu.time(MemoryBound{half * 2, half}) - gpu.time(MemoryBound{half, half}));
  };
  EXPECT_GT(more(0, 1).value, 0);
  EXPECT_NEAR((time(3, false) - time(2, false)) / more(1, 1), 1, 1e-9);
  EXPECT_NEAR((time(3, true) - time(2, true)) / more(3, 2), 1, 1e-9);
}

TEST(OpChain, JoinsWhatItsPartsDidGpuByGpu) {
  Plan plan;
  plan.gpus = 2;
  OpChain chain(plan);
  std::vector<OpChain> parts(2, chain);
  const auto kernel_on = [](std::vector<GpuId> gpus) {
    Op op;
    op.group = Group(std::move(gpus));
    op.work = Kernels(MemoryBound{Bytes(1), Bytes(1)});
    return op;
  };
  const OpId first = parts[1].compute(kernel_on({GpuId(0)}));
  chain.join(parts);
  EXPECT_EQ(chain.mark()[0], OpList{first});
  EXPECT_TRUE(chain.mark()[1].empty());
  std::vector<OpChain> others(2, chain);
  const OpId second = others[0].compute(kernel_on({GpuId(0), GpuId(1)}));
  chain.join(others);
  EXPECT_EQ(chain.mark()[0], OpList{second});
  EXPECT_EQ(chain.mark()[1], OpList{second});
}

/// Bytes per row of the experts on GPU 1, less those without biases.
TEST_F(LayerOpsTest, BiasesOfExpertsAddToActivations) {
  issue_sequentially(ops(), true);
  const Plan without = std::exchange(plan_, Plan());
  plan_.gpus = 2;
  model_.expert_bias = true;
  issue_sequentially(ops(), true);
  const auto moved = [](const Plan& plan, const std::string& label) {
    for (const Op& op : plan.ops) {
      if (op.label == label) return std::get<MemoryBound>(op.kernels()->of(1));
    }
    return MemoryBound();
  };
  const int rows = 3, hidden = model_.hidden, ffn = model_.expert_ffn;
  const auto more = [&](const std::string& label, int read, int written) {
    const MemoryBound a = moved(without, label), b = moved(plan_, label);
    EXPECT_EQ(b.read - a.read, Bytes(rows * read)) << label;
    EXPECT_EQ(b.written - a.written, Bytes(rows * written)) << label;
  };
  // Two halves: clamped (2 bytes read and written each), then joined; their gradients by gradient
  // and input (4 read, 2 written each), then joined.
  more("activation", 2 * (2 + 2) * ffn + (2 + 4 + 4 + 4) * hidden,
       2 * (2 + 2) * ffn + (4 + 4 + 4 + 2) * hidden);
  more("activation-grad", 2 * (4 + 2) * ffn + (2 + 4 + 2 + 8 + 8) * hidden,
       2 * (2 + 2) * ffn + (4 + 2 + 2 + 4 + 4) * hidden);
  more("reduce", 0, 0);
}

}  // namespace
}  // namespace moesim
