// SPDX-License-Identifier: Apache-2.0
#include "sim/model/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/model/model_flops.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

using Kernels = std::vector<BlockKernel>;

double gemm_flops(const Kernels& kernels, bool scores) {
  double flops = 0;
  for (const BlockKernel& k : kernels) {
    if (multiplies_activations(k.kind) == scores) flops += flops_of(k.kernel).value;
  }
  return flops;
}

/// In the order in which a token meets them.
std::vector<HeldBlock> all_blocks(const MoeModel& model) {
  std::vector<HeldBlock> blocks = {{0, BlockKind::embedding}};
  for (int layer = 0; layer < model.layers + model.mtp; ++layer) {
    if (layer >= model.layers) blocks.push_back({layer, BlockKind::mtp});
    const LayerBlocks in = blocks_of_layer(model, layer);
    if (in.mixer) blocks.push_back({layer, *in.mixer});
    if (in.ffn) blocks.push_back({layer, *in.ffn});
    if (layer >= model.layers - 1) blocks.push_back({layer, BlockKind::head});
  }
  return blocks;
}

class BlocksOf : public testing::TestWithParam<std::string> {
 protected:
  MoeModel model_ = shipped_model(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, BlocksOf, testing::ValuesIn(whole_models()),
                         [](const auto& model) { return test_name(model.param); });

TEST_P(BlocksOf, ComputeTheModelsFlop) {
  const std::int64_t sequence = 4096;
  const BlockShard shard{sequence, sequence / 2};
  double products = 0, scores = 0, scores_backward = 0;
  for (const auto& [layer, block] : all_blocks(model_)) {
    const Kernels forward = forward_kernels(model_, layer, block, shard);
    const Kernels dgrad = dgrad_kernels(model_, layer, block, shard);
    const Kernels wgrad = wgrad_kernels(model_, layer, block, shard);
    EXPECT_DOUBLE_EQ(gemm_flops(forward, false), gemm_flops(dgrad, false));
    EXPECT_DOUBLE_EQ(gemm_flops(forward, false), gemm_flops(wgrad, false));
    EXPECT_EQ(gemm_flops(wgrad, true), 0);
    products += 3 * gemm_flops(forward, false);
    scores += gemm_flops(forward, true);
    scores_backward += gemm_flops(dgrad, true);
  }
  const ModelFlops flops = training_flops(model_, {.sequence = sequence});
  const double in_blocks = flops.projections + flops.ffn + flops.mtp + flops.head;
  EXPECT_NEAR(products / in_blocks / sequence, 1, 1e-9);
  // Keys of windows are rounded to whole ones; convolutions of linear attention and of Mamba are
  // not products.
  const bool linear = model_.attention->shape->linear.has_value() || model_.mamba;
  EXPECT_NEAR(3 * scores / flops.scores / sequence, 1, linear ? 6e-3 : 2e-3);
  // Model flop have twice the forward for the backward pass. Flash attention takes 5 / 2, because
  // it computes the scores again; more where queries are wider than values.
  const AttentionShape& shape = *model_.attention->shape;
  const auto qk = static_cast<double>(shape.query_width());
  const auto v = static_cast<double>(shape.output_width());
  // An indexer's scores are kept: 2.
  const double tolerance = linear ? 0.5 : shape.indexer ? 0.1 : 2e-3;
  EXPECT_NEAR(scores_backward / scores, (3 * qk + 2 * v) / (qk + v), tolerance);
}

TEST(Blocks, OfLinearAttentionPassChunksThroughMemory) {
  const MoeModel model = shipped_model("qwen3-next-80b-a3b");  // 32 value heads, 128 x 128 states
  const BlockShard shard{4096, 2048};
  const std::int64_t row = 32 * 128, triangle = 32 * 64, states = 32 * 128 * 128 / 64;
  const auto moved = [&](const Kernels& kernels) {
    MemoryBound sum;
    for (const BlockKernel& each : kernels) {
      const auto* memory = std::get_if<MemoryBound>(&each.kernel);
      if (memory == nullptr || each.kind != OpKind::attention_scores) continue;
      sum.read += memory->read;
      sum.written += memory->written;
    }
    return sum;
  };
  const MemoryBound forward = moved(forward_kernels(model, 0, BlockKind::attention, shard));
  EXPECT_EQ(forward.read.value, 4096 * 2 * (9 * row + 3 * triangle + states));
  EXPECT_EQ(forward.written.value, 4096 * 2 * (4 * row + 3 * triangle + states));
  const MemoryBound backward = moved(dgrad_kernels(model, 0, BlockKind::attention, shard));
  EXPECT_EQ(backward.read.value, 4096 * 2 * (25 * row + 2 * triangle + 2 * states));
  EXPECT_EQ(backward.written.value, 4096 * 2 * (11 * row + 2 * states));
  const MemoryBound full = moved(forward_kernels(model, 3, BlockKind::attention, shard));
  EXPECT_EQ(full.read.value + full.written.value, 0);
}

TEST_P(BlocksOf, AreDividedByTensorParallelGpus) {
  const std::int64_t queries = 8192;
  for (const int tp : {2, 4}) {
    for (const HeldBlock& held : all_blocks(model_)) {
      const int layer = held.layer;
      const BlockKind block = held.block;
      if (layer > 3 && layer < model_.layers - 1) continue;
      const BlockShard whole{queries, queries / 2}, shard{queries, queries / 2, tp};
      const auto flops = [&](const BlockShard& of, bool scores) {
        return gemm_flops(forward_kernels(model_, layer, block, of), scores);
      };
      EXPECT_NEAR(tp * flops(shard, false) / std::max(1.0, flops(whole, false)), 1,
                  flops(whole, false) == 0 ? 1 : 1e-3);
      EXPECT_DOUBLE_EQ(tp * flops(shard, true), flops(whole, true));
      const Bytes all = kept_activations(model_, layer, block, whole, {});
      const Bytes one = kept_activations(model_, layer, block, shard, {});
      EXPECT_NEAR(static_cast<double>(one.value * tp), static_cast<double>(all.value),
                  1e-3 * static_cast<double>(all.value));
    }
  }
}

TEST_P(BlocksOf, KeepLessTheMoreIsComputedAgain) {
  const BlockShard shard{4096, 2048, 2};
  for (const auto& [layer, block] : all_blocks(model_)) {
    if (layer > 3 && layer < model_.layers - 1) continue;
    const Bytes all = kept_activations(model_, layer, block, shard, {});
    EXPECT_TRUE(recomputed_kernels(model_, layer, block, shard, {}).empty());
    for (std::size_t i = 0; i < recompute_module_names().size(); ++i) {
      const Recompute one{static_cast<RecomputeModule>(i)};
      const Bytes kept = kept_activations(model_, layer, block, shard, one);
      const Kernels again = recomputed_kernels(model_, layer, block, shard, one);
      EXPECT_LE(kept, all);
      // Router and shared experts, whose kernels are not these, are dropped too.
      if (block != BlockKind::moe) {
        EXPECT_EQ(kept < all, !again.empty()) << one.text();
      }
      EXPECT_LE(again.size(), forward_kernels(model_, layer, block, shard).size());
    }
  }
}

TEST(Blocks, KeepWhatKorthikantiCounts) {
  // arXiv:2205.05198, section 4: s b h (34 + 5 a s / h) bytes a layer; 2 + 1 + 1 of them are masks
  // of dropout, which these models do without, and 5 a s / h are scores; flash attention keeps of
  // them 4 bytes a query and head.
  const MoeModel model = parse_dense_model(
      "name: x\nsource: none\nhidden: 1024\nlayers: 2\ndense_ffn: 4096\ndense_matrices: 2\n"
      "activations: bf16\nweights: bf16\nvocabulary: 1000\n"
      "attention: {heads: 16, head_dim: 64}\n",
      "m.yaml");
  const std::int64_t queries = 2048, sbh = queries * 1024;
  const auto layer = [&](const BlockShard& shard, const Recompute& recompute) {
    const Bytes both = kept_activations(model, 1, BlockKind::attention, shard, recompute) +
                       kept_activations(model, 1, BlockKind::dense_ffn, shard, recompute);
    const bool statistics = !recompute.has(RecomputeModule::core_attn);
    return both.value - (statistics ? queries * 16 * 4 / shard.tp : 0);
  };
  EXPECT_EQ(layer({queries, 1024}, {}), 32 * sbh);
  EXPECT_EQ(layer({queries, 1024}, {RecomputeModule::core_attn}), 32 * sbh);
  // Equation 2, only tensor parallel: 10 + 24 / t, less the two masks that are not divided.
  EXPECT_EQ(layer({queries, 1024, 8, false}, {}), 8 * sbh + 24 * sbh / 8);
  // Equation 4, with sequence parallelism: 34 / t.
  EXPECT_EQ(layer({queries, 1024, 8, true}, {}), 32 * sbh / 8);
  // Full recomputation: the layer's input.
  EXPECT_EQ(layer({queries, 1024}, {RecomputeModule::full}), 2 * sbh);
}

TEST(Blocks, ComputeAgainWhatModulesName) {
  const MoeModel model = shipped_model("deepseek-v3");
  const BlockShard shard{4096, 2048};
  const auto kinds = [&](BlockKind block, RecomputeModule module) {
    std::vector<OpKind> result;
    for (const BlockKernel& k : recomputed_kernels(model, 5, block, shard, {module})) {
      result.push_back(k.kind);
    }
    return result;
  };
  const OpKind projections = OpKind::attention_projections;
  EXPECT_THAT(kinds(BlockKind::attention, RecomputeModule::core_attn),
              testing::ElementsAre(OpKind::attention_scores));
  EXPECT_THAT(kinds(BlockKind::attention, RecomputeModule::layernorm),
              testing::ElementsAre(OpKind::norm));
  // Norm and projection up of queries, of keys and values, and rotary embedding.
  EXPECT_EQ(kinds(BlockKind::attention, RecomputeModule::mla_up_proj),
            std::vector<OpKind>(5, projections));
  EXPECT_THAT(kinds(BlockKind::dense_ffn, RecomputeModule::mlp),
              testing::ElementsAre(OpKind::norm, OpKind::dense_fc1, OpKind::dense_activation,
                                   OpKind::dense_fc2));
  EXPECT_EQ(kinds(BlockKind::attention, RecomputeModule::full).size(),
            forward_kernels(model, 5, BlockKind::attention, shard).size());
  // Queries, keys and values, and the normed vectors that they come from.
  const auto kept = [&](const Recompute& recompute) {
    return kept_activations(model, 5, BlockKind::attention, shard, recompute).value;
  };
  EXPECT_EQ(kept({}) - kept({RecomputeModule::mla_up_proj}),
            std::int64_t{4096} * 2 * (128 * (192 + 192 + 128) + 1536 + 512));
}

/// Kernel by kernel in place of one that reads and writes queries and keys.
TEST(Blocks, RotateScaledQueriesAndKeysInManyKernels) {
  MoeModel model = shipped_model("gpt-oss-20b");
  BlockShard shard;
  shard.tokens = 1024;
  shard.attended = 512;
  const auto moved = [&](bool yarn, const auto& kernels) {
    model.attention->shape->yarn = yarn;
    std::int64_t bytes = 0;
    for (const BlockKernel& k : kernels(model, 1, BlockKind::attention, shard)) {
      bytes += memory_traffic_of(k.kernel).value;
    }
    return bytes;
  };
  EXPECT_TRUE(model.attention->shape->yarn);
  const std::int64_t rotated = std::int64_t{1024} * (64 + 8) * 64 * 2;
  EXPECT_EQ(moved(true, forward_kernels) - moved(false, forward_kernels), 10 * rotated);
  EXPECT_EQ(moved(true, dgrad_kernels) - moved(false, dgrad_kernels), 12 * rotated);
}

TEST(Blocks, OfRoutedExpertsKeepRows) {
  const MoeModel model = shipped_model("qwen3-30b-a3b");
  const auto kept = [&](DataType type, int etp, const Recompute& recompute) {
    return kept_expert_activations(model, 1000, etp, type, recompute).value;
  };
  // Input 2048, two inner rows and their product of 768, and the gate's weight.
  EXPECT_EQ(kept(DataType::bf16, 1, {}), 1000 * (2 * (2048 + 3 * 768) + 4));
  EXPECT_EQ(kept(DataType::fp8, 1, {}), 1000 * (2048 + 2 * 2 * 768 + 768 + 4));
  EXPECT_EQ(kept(DataType::bf16, 2, {}), 1000 * (2 * (2048 + 3 * 384) + 4));
  EXPECT_EQ(kept(DataType::bf16, 1, {RecomputeModule::moe_act}), 1000 * (2 * (2048 + 2 * 768) + 4));
  EXPECT_EQ(kept(DataType::bf16, 1, {RecomputeModule::moe}), 0);
  EXPECT_EQ(kept(DataType::bf16, 1, {RecomputeModule::full}), 0);
}

TEST(Blocks, OfWindowLayersAttendToLess) {
  const MoeModel model = shipped_model("gpt-oss-120b");
  const BlockShard shard{4096, 2048};
  const auto scores = [&](int layer) {
    return gemm_flops(forward_kernels(model, layer, BlockKind::attention, shard), true);
  };
  EXPECT_DOUBLE_EQ(scores(1) / scores(0), 2048 / 126.0);  // 128 - 128 x 127 / (2 x 4095), rounded
}

TEST(Blocks, ReadTheEmbeddingsTableOnlyForItsGradient) {
  const MoeModel model = shipped_model("llama-3-8b");
  const BlockShard shard{4096, 2048};
  const auto traffic = [](const Kernels& kernels) {
    Bytes total;
    for (const BlockKernel& k : kernels) total += memory_traffic_of(k.kernel);
    return total.value;
  };
  const std::int64_t rows = std::int64_t{4096} * 4096 * 2;
  EXPECT_EQ(traffic(forward_kernels(model, 0, BlockKind::embedding, shard)), 2 * rows);
  EXPECT_EQ(traffic(dgrad_kernels(model, 0, BlockKind::embedding, shard)),
            2 * (rows + std::int64_t{128256} * 4096 * 6));
  EXPECT_TRUE(wgrad_kernels(model, 0, BlockKind::embedding, shard).empty());  // nobody delays it
}

std::vector<std::pair<OpKind, Kernel>> listed(const std::vector<BlockKernel>& kernels) {
  std::vector<std::pair<OpKind, Kernel>> list;
  for (const BlockKernel& k : kernels) list.emplace_back(k.kind, k.kernel);
  return list;
}

/// Of mixers, forward and backward, in training; and in a pass of serving.
TEST(Blocks, HaveTheKernelsOfTheFirstLayerWithTheSame) {
  BlockShard training;
  training.tokens = 4096;
  training.attended = 2048;
  const BlockShard served =
      serving_shard({{{.context = 900, .tokens = 1, .count = 3}}, DataType::bf16}, 1,
                    GemmTypes::only(DataType::bf16));
  int firsts = 0, layers = 0;
  for (const std::string& name : whole_models()) {
    const MoeModel model = shipped_model(name);
    for (int layer = 0; layer < model.layers + model.mtp; ++layer) {
      const auto mixer = blocks_of_layer(model, layer).mixer;
      if (!mixer) continue;
      const int first = first_with_same(model, layer, *mixer);
      firsts += first == layer ? 1 : 0;
      ++layers;
      ASSERT_LE(first, layer);
      const auto kernels = [&](int of) {
        auto all = listed(forward_kernels(model, of, *mixer, training));
        for (const auto& more : {dgrad_kernels(model, of, *mixer, training),
                                 wgrad_kernels(model, of, *mixer, training),
                                 forward_kernels(model, of, *mixer, served)}) {
          const auto list = listed(more);
          all.insert(all.end(), list.begin(), list.end());
        }
        return all;
      };
      EXPECT_EQ(kernels(first), kernels(layer)) << name << " layer " << layer;
    }
    EXPECT_EQ(first_with_same(model, model.layers - 1, BlockKind::head), 0);
  }
  EXPECT_LT(firsts, layers / 4);
}

}  // namespace
}  // namespace moesim
