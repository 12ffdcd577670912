// SPDX-License-Identifier: Apache-2.0
// What kernels between products read and write, element by element of a token's row.
#include <gtest/gtest.h>

#include <vector>

#include "sim/model/blocks.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

constexpr BlockShard shard_of_256{256, 128};

/// Elements of 2 bytes per token of the kernels of a kind: read and written, forward and backward.
std::vector<double> elements(const MoeModel& model, int layer, BlockKind block, OpKind kind) {
  std::vector<double> sums(4, 0);
  const auto add = [&](const std::vector<BlockKernel>& kernels, std::size_t at) {
    for (const BlockKernel& one : kernels) {
      const auto* memory = std::get_if<MemoryBound>(&one.kernel);
      if (memory == nullptr || one.kind != kind) continue;
      sums[at] += static_cast<double>(memory->read.value) / (2 * shard_of_256.tokens);
      sums[at + 1] += static_cast<double>(memory->written.value) / (2 * shard_of_256.tokens);
    }
  };
  add(forward_kernels(model, layer, block, shard_of_256), 0);
  add(dgrad_kernels(model, layer, block, shard_of_256), 2);
  return sums;
}

using Elements = std::vector<double>;

MoeModel small_hybrid() {
  return parse_moe_model(
      "name: x\nsource: none\nhidden: 10\nexperts: 4\ntop_k: 2\nexpert_ffn: 5\n"
      "expert_matrices: 2\nactivations: bf16\nweights: bf16\nvocabulary: 100\n"
      "attention: {heads: 4, kv_heads: 2, head_dim: 3}\nlayers: 4\npattern: 'ME*M'\n"
      "mamba: {heads: 4, head_dim: 3, groups: 2, state: 5, conv: 4}\n",
      "m.yaml");
}

// Inner width 12, B and C 10 each; chunks of 128 tokens.
TEST(MemoryTraffic, OfAMambaBlock) {
  const MoeModel model = small_hybrid();
  const auto of = [&](OpKind kind, int layer = 3) {
    return elements(model, layer, BlockKind::mamba, kind);
  };
  EXPECT_EQ(of(OpKind::mamba_conv), (Elements{32, 32, 96, 64}));
  // States of a chunk are less than an element of a token; products 2 x 128.
  EXPECT_EQ(of(OpKind::mamba_scan),
            (Elements{3 * 12 + 4 * 10 + 2 * 256, 2 * 12 + 2 * 256, 14 * 12 + 11 * 10 + 8 * 256,
                      3 * 12 + 6 * 10 + 4 * 256}));
  EXPECT_EQ(of(OpKind::mamba_norm), (Elements{12, 12, 24, 12}));
  // The residual sum reads two rows, which the first block of a model has not.
  EXPECT_EQ(of(OpKind::norm), (Elements{20 + 10, 10 + 10, 20 + 20, 10 + 10}));
  EXPECT_EQ(of(OpKind::norm, 0), (Elements{10, 10, 20, 10}));
}

TEST(MemoryTraffic, OfRotaryEmbeddings) {
  EXPECT_EQ(elements(small_hybrid(), 2, BlockKind::attention, OpKind::attention_projections),
            (Elements{18, 18, 18, 18}));
}

TEST(MemoryTraffic, OfTheNormBeforeExperts) {
  EXPECT_EQ(elements(small_hybrid(), 1, BlockKind::moe, OpKind::norm),
            (Elements{20 + 10, 10 + 10, 20 + 20, 10 + 10}));
}

TEST(MemoryTraffic, OfLinearAttention) {
  // Qwen3-Next: its convolution sees queries and keys of 16 x 128 and values of 32 x 128.
  EXPECT_EQ(elements(shipped_model("qwen3-next-80b-a3b"), 0, BlockKind::attention,
                     OpKind::attention_projections),
            (Elements{8192, 8192, 2 * 8192, 8192}));
  // Its output of 32 x 128 and a gate as wide, as full layers have of 16 x 256.
  for (const int layer : {0, 3}) {
    EXPECT_EQ(elements(shipped_model("qwen3-next-80b-a3b"), layer, BlockKind::attention,
                       OpKind::attention_output),
              (Elements{2 * 4096, 4096, 3 * 4096, 2 * 4096}))
        << layer;
  }
}

TEST(MemoryTraffic, OfLatentAttention) {
  // DeepSeek-V3: norms of 1,536 and 512; 128 heads turn 64 elements of queries and of the one key,
  // which is joined with 128 of their own; values of 128.
  const double norms = 1536 + 512, turned = 128 * 64, up = 128 * (128 + 128);
  EXPECT_EQ(elements(shipped_model("deepseek-v3"), 5, BlockKind::attention,
                     OpKind::attention_projections),
            (Elements{norms + turned + up + 64, norms + 2 * turned + up,
                      2 * norms + 2 * turned + up, norms + turned + up + 64}));
}

TEST(MemoryTraffic, OfSharedExpertsIsKeptPerExpert) {
  MoeModel model = shipped_model("deepseek-v3");
  const auto kept = [&] {
    return kept_activations(model, 5, BlockKind::moe, {256, 256}, {}).value;
  };
  const std::int64_t one = kept();
  model.shared_experts = 3;
  // Two more of 2,048: gate, up and what multiplies down, of 2 bytes.
  EXPECT_EQ(kept() - one, 256 * 2 * 2048 * 3 * 2);
}

TEST(MemoryTraffic, OfTheHostIsNone) { EXPECT_EQ(memory_traffic_of(HostWork{1000}), Bytes(0)); }

// 64 heads of 512, of which 64 turn; queries through 1,024; one key.
TEST(MemoryTraffic, OfCompressedKeys) {
  const MoeModel model = shipped_model("deepseek-v4-flash");
  const auto of = [&](int layer, OpKind kind) {
    return elements(model, layer, BlockKind::attention, kind);
  };
  const double norms = 1024 + 512, query = 64 * 512, rotated = 65 * 64;
  const auto with = [&](double read, double sums) {
    return Elements{norms + query + rotated + read, norms + query + rotated + sums,
                    2 * norms + 2 * query + read + sums, norms + query + read};
  };
  EXPECT_EQ(of(0, OpKind::attention_projections), with(0, 0));
  // Keys and weights of 128 tokens to one; of 4 tokens with overlap, the indexer's of 128 as well.
  EXPECT_EQ(of(3, OpKind::attention_projections), with(2 * 512, 512 / 128));
  EXPECT_EQ(of(2, OpKind::attention_projections), with(4 * 512 + 4 * 128, 512 / 4 + 128 / 4));
  EXPECT_EQ(of(2, OpKind::attention_output), (Elements{query, query, query, query}));
  // Scores of 128 / 4 keys and 512 chosen ones, each of 4 bytes.
  EXPECT_EQ(of(2, OpKind::attention_scores)[1], 2 * (32 + 512));
}

TEST(MemoryTraffic, WholeParametersAreThoseBeforeTheHeads) {
  const BlockParameters mla =
      block_parameters(shipped_model("deepseek-v3"), 5, BlockKind::attention);
  EXPECT_EQ(mla.whole, 7168 * (1536 + 512 + 64) + 7168 + 1536 + 512);
  MoeModel biased = shipped_model("deepseek-v3");
  biased.attention->shape->bias = true;
  EXPECT_EQ(block_parameters(biased, 5, BlockKind::attention).whole - mla.whole, 1536 + 512 + 64);
  biased.attention->shape->output_bias = true;
  EXPECT_EQ(block_parameters(biased, 5, BlockKind::attention).whole - mla.whole,
            1536 + 512 + 64 + 7168);
  const BlockParameters v4 =
      block_parameters(shipped_model("deepseek-v4-flash"), 0, BlockKind::attention);
  EXPECT_EQ(v4.whole, 4096 * (1024 + 512) + 4096 + 1024 + 512 + 4 * 4096 * 24);
}

}  // namespace
}  // namespace moesim
