// SPDX-License-Identifier: Apache-2.0
// Memory of two GPUs, small enough to add up in the head.
#include <gtest/gtest.h>

#include "sim/mechanism/mechanisms.h"
#include "sim/planner/iteration/layers_memory.h"
#include "tests/mechanism/layer_tokens.h"

namespace moesim {
namespace {

class MemoryTest : public testing::Test {
 protected:
  /// Token 0 on GPU 0 chose experts 2 and 3 of GPU 1, token 1 on GPU 1 experts 0 and 3.
  LayerWork work() {
    LayerWork layer{LayerDecision(tokens_.assignment)};
    layer.dispatch = dispatch_.get();
    layer.counts = dispatch_->count(tokens_.view());
    layer.tokens_per_rank = {1, 1};
    return layer;
  }

  Tokens tokens_{2, 4, 2, 1, {2, 3, 0, 3}, 2};
  MoeModel model_ = toy_model();
  std::unique_ptr<Dispatch> dispatch_ = make_dispatch("alltoall", any_topology(), 2, model_);
};

TEST_F(MemoryTest, WholeExpertsHoldWeightsGradientsAndOptimizer) {
  const auto memory = whole_experts(tokens_.assignment.placement(), model_, {2, 12});
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0].weights, Bytes(2 * 144 * 2));
  EXPECT_EQ(memory[0].gradients, Bytes(2 * 144 * 2));
  EXPECT_EQ(memory[0].optimizer, Bytes(2 * 144 * 12));
}

TEST_F(MemoryTest, ActivationsOfAllLayersAreKeptForTheBackwardPass) {
  const std::vector<PlannedLayer> layers = {PlannedLayer(work()), PlannedLayer(work())};
  // GPU 1 computes 3 rows: its own token, 3 arrived, 3 in and out, 18 inner elements each.
  const std::int64_t layer = 2 * (8 * (1 + 3 + 2 * 3) + 3 * 6 * 3);
  EXPECT_EQ(memory_of(layers, model_, {2, 12}, true)[1].use.of(MemoryPart::activations),
            Bytes(2 * layer));
  EXPECT_EQ(memory_of(layers, model_, {0, 0}, false)[1].use.of(MemoryPart::activations),
            Bytes(layer));
}

// Its rows come to the experts' input, and results back to the sender: GPU 1 has its own token, 2
// rows sent and 3 computed. Between matrices, a backward pass needs all and else the last needs 6.
TEST_F(MemoryTest, AFusedKernelStoresRowsOnce) {
  LayerWork fused = work();
  fused.chunks.push_back(work());
  fused.chunks[0].wave = LayerWave{};
  const std::vector<PlannedLayer> layers = {PlannedLayer(fused)};
  const auto activations = [&](bool backward) {
    return memory_of(layers, model_, {0, 0}, backward)[1].use.of(MemoryPart::activations);
  };
  EXPECT_EQ(activations(true), Bytes(2 * (8 * (1 + 2 + 3) + 3 * 6 * 3)));
  EXPECT_EQ(activations(false), Bytes(2 * (8 * (1 + 2 + 3) + 6 * 3)));
}

TEST_F(MemoryTest, GatheredExpertsOfTwoLayersInARowAreThereAtOnce) {
  std::vector<PlannedLayer> layers(3, PlannedLayer(work()));
  const std::int64_t gathered[] = {5, 7, 4};
  for (std::size_t l = 0; l < 3; ++l) {
    layers[l].decision.memory.assign(2, {Bytes(1), Bytes(0), Bytes(0), Bytes(gathered[l])});
  }
  const auto memory = memory_of(layers, model_, {2, 12}, true);
  EXPECT_EQ(memory[0].use.of(MemoryPart::gathered), Bytes(12));
  EXPECT_EQ(memory[0].use.of(MemoryPart::weights), Bytes(3));
}

TEST_F(MemoryTest, AnOverfullGpuIsToldByHowMuch) {
  auto small = std::make_shared<GpuModel>();
  small->memory = Bytes(1000);
  MemoryPeaks memory(2);
  memory[1].use.of(MemoryPart::weights) = Bytes(900);
  memory[1].use.of(MemoryPart::activations) = Bytes(350);
  EXPECT_NO_THROW(check_memory({memory[0]}, {small, small}, "p", ""));
  try {
    check_memory(memory, {small, small}, "p", "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.diagnostics()[0].message,
              "policy 'p' needs 1.25 kB on GPU 1, which has 1 kB for tensors: 250 B too much (900 "
              "B weights, 350 B activations)");
  }
}

}  // namespace
}  // namespace moesim
