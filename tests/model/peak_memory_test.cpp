// SPDX-License-Identifier: Apache-2.0
// Peaks of real runs that MooreThreads/SimuMax published (b200_release_v1.2_summary): 8 B200,
// Megatron-LM 0.14, largest allocation in GiB. Layers are cut; without pipelines, one microbatch of
// 4096 tokens is in flight.
#include <gtest/gtest.h>

#include "sim/model/blocks.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

struct PeakRun {
  std::string model;
  int layers, tp, ep;
  double gib;
};

class Peak : public testing::TestWithParam<PeakRun> {};
INSTANTIATE_TEST_SUITE_P(SimuMax, Peak,
                         testing::Values(PeakRun{"llama-3-70b", 12, 2, 1, 60.68},
                                         PeakRun{"llama-3-70b", 12, 4, 1, 39.07},
                                         PeakRun{"llama-3-70b", 12, 8, 1, 28.29},
                                         PeakRun{"llama-3-405b", 4, 2, 1, 81.59},
                                         PeakRun{"llama-3-405b", 4, 4, 1, 52.89},
                                         PeakRun{"llama-3-405b", 4, 8, 1, 38.57},
                                         PeakRun{"deepseek-v2", 4, 1, 8, 45.63},
                                         PeakRun{"deepseek-v3", 4, 1, 8, 104.3}),
                         [](const auto& run) {
                           return test_name(run.param.model) + "_tp" + std::to_string(run.param.tp);
                         });

TEST_P(Peak, IsStateActivationsAndPlaceholders) {
  const PeakRun& run = GetParam();
  constexpr std::int64_t gpus = 8, sequence = 4096;
  MoeModel model = shipped_model(run.model);
  model.layers = run.layers;
  if (!model.moe_layers.empty()) model.moe_layers = {1, 2, 3};
  const BlockShard shard{sequence, sequence / 2, run.tp};
  std::vector<HeldBlock> blocks = {{0, BlockKind::embedding}, {0, BlockKind::head}};
  for (int layer = 0; layer < run.layers; ++layer) {
    blocks.push_back({layer, BlockKind::attention});
    blocks.push_back({layer, model.is_moe_layer(layer) ? BlockKind::moe : BlockKind::dense_ffn});
  }
  double bytes = 0;
  for (const auto& [layer, block] : blocks) {
    const BlockParameters p = block_parameters(model, layer, block);
    // Weights and gradients of 2 and 4 bytes; 12 of the optimizer, divided by the replicas.
    const double dense = static_cast<double>(p.split) / run.tp + static_cast<double>(p.whole);
    bytes += dense * (6 + 12.0 * run.tp / gpus);
    bytes += static_cast<double>(p.routed) / run.ep * (6 + 12.0 * run.ep / gpus);
    bytes += static_cast<double>(kept_activations(model, layer, block, shard, {}).value);
    if (block != BlockKind::moe) continue;
    const Bytes rows =
        kept_expert_activations(model, sequence * model.top_k, 1, DataType::bf16, {});
    bytes += static_cast<double>(rows.value);
  }
  bytes += static_cast<double>(gradient_placeholders(model, blocks, shard, 1).value);
  // What kernels take for a moment is missing, so that this is below the peak.
  EXPECT_LT(bytes / (1 << 30) / run.gib, 1);
  EXPECT_GT(bytes / (1 << 30) / run.gib, 0.98);
}

}  // namespace
}  // namespace moesim
