// SPDX-License-Identifier: Apache-2.0
// What a pass of serving reads and writes between its products, element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "sim/model/blocks.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

/// Sequences of which each adds one token to 999.
std::vector<SequenceStep> decodes(std::int64_t count) { return {{999, 1, count}}; }

/// Bytes that the kernels of a kind read and write which are no products.
std::pair<std::int64_t, std::int64_t> served_bytes(const MoeModel& model, int layer,
                                                   BlockKind block, OpKind kind,
                                                   const ServedTokens& served) {
  std::pair<std::int64_t, std::int64_t> sum;
  const BlockShard shard = serving_shard(served, 1, GemmTypes::only(DataType::bf16));
  for (const BlockKernel& one : forward_kernels(model, layer, block, shard)) {
    const auto* memory = std::get_if<MemoryBound>(&one.kernel);
    if (memory == nullptr || one.kind != kind) continue;
    sum.first += memory->read.value;
    sum.second += memory->written.value;
  }
  return sum;
}

TEST(ServedTraffic, OfGroupedQueriesIsNormsRotationAndTheCache) {
  // Qwen3-30B: 32 heads of queries, 4 of keys and of values, of 128.
  const MoeModel model = shipped_model("qwen3-30b-a3b");
  constexpr std::int64_t rotated = 36 * 128, cached = 8 * 128;
  const auto of = [&](DataType cache) {
    return served_bytes(model, 5, BlockKind::attention, OpKind::attention_projections,
                        {decodes(10), cache});
  };
  const std::int64_t read = 10 * 2 * (2 * rotated + cached);
  EXPECT_EQ(of(DataType::bf16), std::pair(read, read));
  EXPECT_EQ(of(DataType::fp8), std::pair(read, read - 10 * cached));
}

TEST(ServedTraffic, OfLatentAttentionIsNormsRotationAndOneKey) {
  // DeepSeek-V3: 128 heads and one key turn 64 elements; 1,536 and 512 in between.
  const MoeModel model = shipped_model("deepseek-v3");
  const auto of = [&](const ServedTokens& served) {
    return served_bytes(model, 5, BlockKind::attention, OpKind::attention_projections, served);
  };
  constexpr std::int64_t between = 1536 + 512, turned = 129 * 64, key = 512 + 64;
  const std::int64_t one = 2 * (between + turned + key);
  EXPECT_EQ(of({decodes(1)}), std::pair(one, one));
  EXPECT_EQ(of({decodes(7), DataType::fp8}), std::pair(7 * one, 7 * (one - key)));
  // A prompt joins the keys of all heads, those of its prefix as well.
  const std::int64_t prompt = 100 * one + 300 * 2 * 128 * 192;
  EXPECT_EQ(of({{{200, 100, 1}}}), std::pair(prompt, prompt));
}

TEST(ServedTraffic, OfOneDecodeOfLatentAttentionHasScores) {
  const BlockShard shard = serving_shard({decodes(1)}, 1, GemmTypes::only(DataType::bf16));
  int scores = 0;
  for (const BlockKernel& one :
       forward_kernels(shipped_model("deepseek-v3"), 5, BlockKind::attention, shard)) {
    scores += std::holds_alternative<FusedAttention>(one.kernel) ? 1 : 0;
  }
  EXPECT_EQ(scores, 1);
}

TEST(ServedTraffic, OfCompressedKeysIsThatOfTrainingAndTheCache) {
  // DeepSeek-V4-Flash: norms of 1,024 and 512; 64 heads of 512 with a norm, and one key; of each,
  // 64 elements turn.
  const MoeModel model = shipped_model("deepseek-v4-flash");
  constexpr std::int64_t in_training = 1024 + 512 + 64 * 512 + 65 * 64, key = 512;
  const auto of = [&](OpKind kind, int layer, const ServedTokens& served) {
    return served_bytes(model, layer, BlockKind::attention, kind, served);
  };
  const std::int64_t read = 7 * 2 * (in_training + key);
  EXPECT_EQ(of(OpKind::attention_projections, 0, {decodes(7)}), std::pair(read, read));
  EXPECT_EQ(of(OpKind::attention_projections, 0, {decodes(7), DataType::fp8}),
            std::pair(read, read - 7 * key));
  // The indexer writes and reads a score of 4 bytes for 4 tokens; 512 numbers of 4 bytes are
  // chosen.
  constexpr std::int64_t scores = 7 * 4 * 1000 / 4;
  EXPECT_EQ(of(OpKind::attention_scores, 2, {decodes(7)}), std::pair(scores, scores + 7 * 512 * 4));
}

TEST(ServedTraffic, OfCompressedKeysIsAWindowAndTheCompressedOnes) {
  const BlockShard shard = serving_shard({decodes(7)}, 1, GemmTypes::only(DataType::bf16));
  const MoeModel model = shipped_model("deepseek-v4-flash");
  const auto keys = [&](int layer) {
    std::int64_t sum = 0;
    for (const BlockKernel& one : forward_kernels(model, layer, BlockKind::attention, shard)) {
      if (const auto* scores = std::get_if<FusedAttention>(&one.kernel)) sum += scores->keys;
    }
    return sum;
  };
  EXPECT_EQ(keys(0), 7 * 128);
  EXPECT_EQ(keys(2), 7 * (128 + 1000 / 4) + 7 * 1000 / 4)
      << "and all compressed ones for the choice";
  EXPECT_EQ(keys(3), 7 * (128 + 8)) << "one for 128 tokens, rounded up";
}

TEST(ServedTraffic, OfAnIndexerReadsItsKeysOnceForAllHeads) {
  // GLM-5: 32 heads of 128 in fp8 score all keys of 5 sequences.
  const ServedTokens served{{{131071, 1, 5}}, DataType::fp8};
  const BlockShard shard = serving_shard(served, 1, GemmTypes::only(DataType::bf16));
  const auto kernels = forward_kernels(shipped_model("glm-5"), 5, BlockKind::attention, shard);
  const auto index = std::ranges::find_if(kernels, [](const BlockKernel& one) {
    const auto* scores = std::get_if<FusedAttention>(&one.kernel);
    return scores != nullptr && scores->shape.v_width == 0;
  });
  ASSERT_NE(index, kernels.end());
  EXPECT_EQ(memory_traffic_of(index->kernel), Bytes(5 * 131072 * 128 + 5 * 32 * 128));
  EXPECT_EQ(flops_of(index->kernel), Flops(2.0 * 5 * 131072 * 32 * 128));
}

TEST(ServedTraffic, OfTheHeadReadsLogitsTwiceInFp32) {
  const MoeModel model = shipped_model("deepseek-v3");  // 129,280 words
  EXPECT_EQ(served_bytes(model, model.layers - 1, BlockKind::head, OpKind::loss, {decodes(7)}),
            std::pair(7 * 129280L * 4 * 2, 7 * 129280L * 4));
}

TEST(ServedTraffic, OfMambaIsItsStateOfADecode) {
  const MoeModel model = parse_moe_model(
      "name: x\nsource: none\nhidden: 10\nexperts: 4\ntop_k: 2\nexpert_ffn: 5\n"
      "expert_matrices: 2\nactivations: bf16\nweights: bf16\nvocabulary: 100\n"
      "attention: {heads: 4, kv_heads: 2, head_dim: 3}\nlayers: 2\npattern: 'ME'\n"
      "mamba: {heads: 4, head_dim: 3, groups: 2, state: 5, conv: 4}\n",
      "m.yaml");
  const auto of = [&](OpKind kind) {
    return served_bytes(model, 0, BlockKind::mamba, kind, {{{1000, 1, 7}, {0, 300, 1}}});
  };
  // Inner width 12, convolved 12 + 2 x 2 x 5; the state is 12 x 5 in fp32. The norm adds a row.
  const auto both = [](std::int64_t bytes) { return std::pair(bytes, bytes); };
  EXPECT_EQ(of(OpKind::norm), both(307 * 2 * 2 * 10));
  EXPECT_EQ(of(OpKind::mamba_conv), both(307 * 2 * 32));
  EXPECT_EQ(of(OpKind::mamba_scan), both(7 * 12 * 5 * 4));
  EXPECT_EQ(of(OpKind::mamba_norm), both(307 * 2 * 12));
  double projections = 0, scan = 0;
  const BlockShard shard =
      serving_shard({{{1000, 1, 7}, {0, 300, 1}}}, 1, GemmTypes::only(DataType::bf16));
  for (const BlockKernel& one : forward_kernels(model, 0, BlockKind::mamba, shard)) {
    if (one.kind == OpKind::mamba_projection) projections += flops_of(one.kernel).value;
    if (one.kind == OpKind::mamba_scan) scan += flops_of(one.kernel).value;
  }
  EXPECT_EQ(projections, 2. * 307 * 10 * ((12 + 32 + 4) + 12));
  EXPECT_EQ(scan, 2. * 300 * (128 + 2 * 5) * 12);
}

}  // namespace
}  // namespace moesim
