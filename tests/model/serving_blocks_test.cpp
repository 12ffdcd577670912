// SPDX-License-Identifier: Apache-2.0
// What a GPU runs in a pass of serving: closed forms and counts by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/model/blocks.h"
#include "sim/model/gpu_model.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

using Served = std::vector<BlockKernel>;

std::vector<FusedAttention> scores_of(const Served& kernels) {
  std::vector<FusedAttention> found;
  for (const BlockKernel& each : kernels) {
    if (const auto* attention = std::get_if<FusedAttention>(&each.kernel)) {
      found.push_back(*attention);
    }
  }
  return found;
}

double products_of(const Served& kernels) {
  double sum = 0;
  for (const BlockKernel& each : kernels) {
    if (!multiplies_activations(each.kind)) sum += flops_of(each.kernel).value;
  }
  return sum;
}

Served attention_of(const std::string& name, int layer, std::vector<SequenceStep> sequences,
                    int tp = 1, DataType cache = DataType::bf16) {
  const BlockShard shard =
      serving_shard({std::move(sequences), cache}, tp, GemmTypes::only(DataType::bf16));
  return forward_kernels(shipped_model(name), layer, BlockKind::attention, shard);
}

/// Keys that each new token sees, one by one.
double counted_keys(const SequenceStep& of, KeyRange range) {
  double seen = 0;
  for (std::int64_t token = 0; token < of.tokens; ++token) {
    const double before = static_cast<double>(of.context + token + 1) / range.ratio;
    seen += range.most > 0 ? std::min<double>(range.most, before) : before;
  }
  return seen * static_cast<double>(of.count);
}

TEST(ServedTokens, SeeAsManyKeysAsCountedOneByOne) {
  for (const KeyRange range : {KeyRange{}, {1}, {7}, {40}, {1000}, {0, 4}, {10, 4}, {3, 128}}) {
    for (const std::int64_t context : {0, 3, 39, 40, 500}) {
      for (const std::int64_t tokens : {20, 41, 300}) {
        const SequenceStep one{context, tokens, 3};
        const AttendedTokens all = attended_tokens({{one}}, false, range);
        const double mean = counted_keys(one, range) / static_cast<double>(tokens * 3);
        EXPECT_NEAR(static_cast<double>(all.attended), std::max(1.0, mean), 0.5 + 1e-9);
        EXPECT_EQ(all.queries, 3 * tokens);
      }
    }
  }
  // A window of 128 with 4 drafts: the first of 5 tokens sees 128, the last 4 more.
  EXPECT_EQ(attended_tokens({{{1000, 5, 2}}}, true, {128}).keys, 2 * 132);
  EXPECT_EQ(attended_tokens({{{1000, 5, 2}}}, true).keys, 2 * 1005);
}

TEST(ServedTokens, OfADecodeAreSharedByContextParallelGpus) {
  ServedTokens served{{{4095, 1, 8}}};
  served.cp = 4;
  const AttendedTokens shared = attended_tokens(served, true);
  EXPECT_EQ(shared.keys, 8 * 1024);
  EXPECT_EQ(shared.attended, 1024);
  EXPECT_EQ(shared.queries, 8);
}

TEST(ServedBlocks, OfGroupedQueriesReadTheCacheOnce) {
  // Qwen3-30B: 32 heads, 4 of keys, 128 wide. 16 sequences of 1,000 tokens, one more each.
  const auto scores = scores_of(attention_of("qwen3-30b-a3b", 0, {{999, 1, 16}}));
  ASSERT_EQ(scores.size(), 1);
  EXPECT_TRUE(scores[0].is_decode());
  EXPECT_EQ(flops_of(scores[0]), Flops(2.0 * 16 * 1000 * 32 * 256));
  EXPECT_EQ(memory_traffic_of(scores[0]), Bytes(16 * 1000 * 4 * 256 * 2 + 16 * 32 * 256 * 2));
  const auto in_fp8 = scores_of(attention_of("qwen3-30b-a3b", 0, {{999, 1, 16}}, 1, DataType::fp8));
  EXPECT_EQ(2 * memory_traffic_of(in_fp8[0]), memory_traffic_of(scores[0]));
  // Eight GPUs of a tensor group: each has a whole head of keys.
  const auto split = scores_of(attention_of("qwen3-30b-a3b", 0, {{999, 1, 16}}, 8));
  EXPECT_EQ(split[0].shape.heads, 4);
  EXPECT_EQ(split[0].shape.kv_heads, 1);
}

TEST(ServedBlocks, OfMixedPassesHaveAKernelOfEachKind) {
  const auto scores = scores_of(attention_of("qwen3-30b-a3b", 0, {{999, 1, 16}, {2048, 512, 1}}));
  ASSERT_EQ(scores.size(), 2);
  EXPECT_FALSE(scores[0].is_decode());
  EXPECT_EQ(scores[0].keys, 2560);
  EXPECT_EQ(scores[0].attended, 2048 + 257);  // 2304.5, rounded
  EXPECT_TRUE(scores[1].is_decode());
}

TEST(ServedBlocks, OfLatentAttentionDecodeInTheAbsorbedForm) {
  // DeepSeek-V3: 128 heads, latent keys of 512 + 64, 128 wide parts of queries and values.
  const std::vector<SequenceStep> batch = {{4095, 1, 64}};
  const Served kernels = attention_of("deepseek-v3", 0, batch);
  const auto scores = scores_of(kernels);
  ASSERT_EQ(scores.size(), 1);
  EXPECT_TRUE(scores[0].shape.latent);
  EXPECT_EQ(flops_of(scores[0]), Flops(2.0 * 64 * 4096 * 128 * (2 * 512 + 64)));
  EXPECT_EQ(memory_traffic_of(scores[0]), Bytes((64 * 4096 * 576 + 64 * 128 * (576 + 512)) * 2));
  // All projections once: absorbed or not, a token multiplies by each weight once.
  const MoeModel model = shipped_model("deepseek-v3");
  const double weights = static_cast<double>(model.attention->shape->projections(model.hidden));
  EXPECT_DOUBLE_EQ(products_of(kernels), 2.0 * 64 * weights);
}

TEST(ServedBlocks, OfSharedKeysHaveTheHeadsOfAllWhoShareThem) {
  // 8 of DeepSeek-V3's 128 heads each, keys over 4 of these GPUs: 5 decode, a prompt has a prefix.
  const MoeModel v3 = shipped_model("deepseek-v3");
  const std::vector<SequenceStep> list = {{1999, 1, 5}, {1002, 300, 2}};
  const BlockShard shard =
      serving_shard({list, DataType::fp8, 4}, 16, GemmTypes::only(DataType::bf16));
  const auto scores = scores_of(forward_kernels(v3, 0, BlockKind::attention, shard));
  ASSERT_EQ(scores.size(), 2u);  // the prompt's, with keys of its own, then the decode's
  EXPECT_EQ(scores[0].shape.heads, 8);
  EXPECT_EQ(scores[1].shape.heads, 8 * 4);
  EXPECT_EQ(scores[1].attended, 2000 / 4);
  EXPECT_EQ(scores[1].keys, 5 * 2000 / 4);
  const SharedKeys moved = shared_keys(v3, shard);
  EXPECT_EQ(moved.queries, Bytes(5 * 8 * 576 * 2 + 2 * 251 * 576)) << "queries, keys of prefixes";
  EXPECT_EQ(moved.results, Bytes(5 * 8 * 512 * 2 + 5 * 8 * 4 * 4));
  // Grouped queries: 64 heads of 128 values, 4 key heads.
  const MoeModel qwen = shipped_model("qwen3-235b-a22b");
  const BlockShard of_qwen =
      serving_shard({list, DataType::bf16, 2}, 8, GemmTypes::only(DataType::bf16));
  const auto grouped = scores_of(forward_kernels(qwen, 0, BlockKind::attention, of_qwen));
  EXPECT_EQ(grouped.back().shape.heads, 8 * 2);
  EXPECT_EQ(grouped.back().shape.kv_heads, 1);
  EXPECT_EQ(shared_keys(qwen, of_qwen).queries, Bytes(5 * 8 * 128 * 2 + 2 * 501 * 2 * 128 * 2));
  EXPECT_EQ(shared_keys(qwen, of_qwen).results, Bytes(5 * 8 * 128 * 2 + 5 * 8 * 2 * 4));
}

TEST(ServedBlocks, OfLatentAttentionPrefillOnWholeKeys) {
  const auto whole = scores_of(attention_of("deepseek-v3", 0, {{0, 1000, 2}}));
  ASSERT_EQ(whole.size(), 1);
  EXPECT_FALSE(whole[0].shape.latent);
  EXPECT_EQ(whole[0].shape.qk_width, 192);
  EXPECT_EQ(whole[0].shape.v_width, 128);
  // A prefix in the cache is expanded again: 3,000 more rows by its weights.
  const double more = products_of(attention_of("deepseek-v3", 0, {{3000, 1000, 1}})) -
                      products_of(attention_of("deepseek-v3", 0, {{0, 1000, 1}}));
  EXPECT_DOUBLE_EQ(more, 2.0 * 3000 * 512 * 128 * (128 + 128));
}

TEST(ServedBlocks, OfAPrefillComputeAsMuchAsATrainingPass) {
  for (const std::string& name : whole_models()) {
    const MoeModel model = shipped_model(name);
    const BlockShard trained{4096, 2048};
    const BlockShard served = serving_shard({{{0, 4096, 1}}}, 1, GemmTypes::only(DataType::bf16));
    for (const int layer : {0, 3, model.layers - 1}) {
      const auto mixer = blocks_of_layer(model, layer).mixer;
      if (mixer != BlockKind::attention) continue;
      EXPECT_DOUBLE_EQ(products_of(forward_kernels(model, layer, *mixer, served)),
                       products_of(forward_kernels(model, layer, *mixer, trained)))
          << name << " layer " << layer;
    }
  }
}

TEST(ServedBlocks, OfLinearAttentionReadAndWriteTheStatesOfADecode) {
  // Qwen3-Next: 32 value heads with states of 128 x 128, in fp32.
  Bytes moved;
  for (const BlockKernel& each : attention_of("qwen3-next-80b-a3b", 0, {{5000, 1, 10}})) {
    if (each.kind == OpKind::attention_scores) moved += memory_traffic_of(each.kernel);
  }
  EXPECT_EQ(moved, Bytes(2LL * 10 * 32 * 128 * 128 * 4));
}

TEST(ServedBlocks, OfLinearAttentionPassPromptsFromKernelToKernel) {
  // Qwen3-Next: queries and keys of 16 x 128, values of 32 x 128, so that keys (k) and values (v)
  // of all value heads have 4,096 elements per token, triangles (a) 32 x 64, states 4,096 x 128
  // / 64.
  constexpr std::int64_t k = 4096, v = 4096, a = 2048, states = 8192, key = 2048, heads = 32;
  Bytes moved, copied;
  int kernels = 0;
  for (const BlockKernel& each : attention_of("qwen3-next-80b-a3b", 0, {{0, 1000, 1}})) {
    if (each.kind == OpKind::attention_projections &&
        std::holds_alternative<MemoryBound>(each.kernel)) {
      copied += memory_traffic_of(each.kernel);
    }
    if (each.kind != OpKind::attention_scores) continue;
    ++kernels;
    if (std::holds_alternative<MemoryBound>(each.kernel)) moved += memory_traffic_of(each.kernel);
  }
  EXPECT_EQ(kernels, 9);
  const std::int64_t in_training = 7 * k + 6 * v + 6 * a + 2 * states;
  EXPECT_EQ(moved, Bytes(1000 * 2 * (in_training + 4 * key + 6 * heads)));
  // Heads are put in order, convolved, and made contiguous: 2 x 16 x 128 + 2 x 32 x 128 with gates
  // and rates; all but these; all but these.
  const std::int64_t convolved = 2 * key + v, projected = convolved + v + 2 * heads;
  EXPECT_EQ(copied, Bytes(1000 * 2 * 2 * (projected + 2 * convolved)));
}

TEST(ServedBlocks, OfTheHeadComputeTheTokensThatContinue) {
  const MoeModel model = shipped_model("deepseek-v3");
  const auto rows = [&](std::vector<SequenceStep> sequences) {
    const BlockShard shard =
        serving_shard({std::move(sequences)}, 1, GemmTypes::only(DataType::bf16));
    for (const auto& each : forward_kernels(model, model.layers - 1, BlockKind::head, shard)) {
      if (each.kind == OpKind::head) return std::get<GroupedGemm>(each.kernel).m.front();
    }
    return std::int64_t{-1};
  };
  EXPECT_EQ(rows({{0, 4096, 3}}), 3);                   // the last token of each prompt
  EXPECT_EQ(rows({{4096, 2, 8}}), 16);                  // all tokens of a verification
  EXPECT_EQ(rows({{4096, 1, 8}, {1024, 512, 2}}), 10);  // mixed
}

TEST(ServedBlocks, TakeTheRooflineOfTheirKind) {
  const GpuModel gpu = parse_gpu_model(
      "name: toy\nsource: none\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\n"
      "peak: {bf16: 1 TFLOP/s}\nkernels:\n  attention:\n    bf16: {efficiency: 1}\n"
      "  decode:\n    bf16: {efficiency: 1, memory: 0.5, launch: 5 us}\n"
      "  latent_decode:\n    bf16: {efficiency: 1, memory: 0.25, launch: 7 us}\n",
      "g.yaml");
  const AttentionHeads heads{1, 1, 64, 64};
  AttentionHeads latent = heads;
  latent.latent = true;
  // 1,000 keys of 64 + 64 elements of 2 bytes, one query and one result.
  const double cache = 1e-9 * 1000 * 128 * 2, query = 1e-9 * 128 * 2;
  EXPECT_NEAR(gpu.time(FusedAttention{1, 1000, heads, 1000}).value, 5e-6 + 2 * (cache + query),
              1e-12);
  EXPECT_NEAR(gpu.time(FusedAttention{1, 1000, latent, 1000}).value, 7e-6 + 4 * (cache / 2 + query),
              1e-12);
  EXPECT_NEAR(gpu.time(FusedAttention{100, 1000, heads, 1000}).value, cache + 100 * query, 1e-12);
}

TEST(ServedBlocks, PassQueriesThroughMemoryAsOftenAsFitted) {
  const auto microseconds = [](int passes) {
    const GpuModel gpu = parse_gpu_model(
        fmt::format("name: toy\nsource: none\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\n"
                    "peak: {{bf16: 1 PFLOP/s}}\nkernels:\n  latent_decode:\n"
                    "    bf16: {{efficiency: 1, query_passes: {}}}\n",
                    passes),
        "g.yaml");
    AttentionHeads latent{16, 1, 576, 512};
    latent.latent = true;
    return gpu.time(FusedAttention{10, 300, latent, 3000}).value * 1e6;
  };
  // 10 queries of 16 heads: 576 elements in and 512 out, of two bytes, four times more.
  EXPECT_NEAR(microseconds(4) - microseconds(0), 4 * 10 * 16 * 1088 * 2 * 1e-3, 1e-6);
}

TEST(ServedBlocks, ReadWholeTilesOfEverySequence) {
  const GpuModel gpu = parse_gpu_model(
      "name: toy\nsource: none\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\n"
      "peak: {bf16: 1 TFLOP/s}\nkernels:\n"
      "  decode:\n    bf16: {efficiency: 1, half_keys: 100}\n",
      "g.yaml");
  const AttentionHeads heads{1, 1, 64, 64};
  // 10 sequences of 300 keys are read as if they had 400: 128 elements of 2 bytes each.
  EXPECT_NEAR(gpu.time(FusedAttention{10, 300, heads, 3000}).value, 1e-9 * 256 * (4000 + 10),
              1e-12);
}

}  // namespace
}  // namespace moesim
