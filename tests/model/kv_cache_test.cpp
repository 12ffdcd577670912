// SPDX-License-Identifier: Apache-2.0
// The cache of published models, counted by hand.
#include "sim/model/kv_cache.h"

#include <gtest/gtest.h>

#include "tests/model/whole_model.h"

namespace moesim {
namespace {

TEST(KvCache, OfMlaHolds576ValuesPerTokenAndLayer) {
  const MoeModel model = shipped_model("deepseek-v3");
  EXPECT_EQ(cache_per_token(model, {}), Bytes(576 * 2 * 61));
  EXPECT_EQ(cache_per_token(model, {.type = DataType::fp8}), Bytes(576 * 61));
  EXPECT_EQ(cache_per_token(model, {.tp = 8}), Bytes(576 * 2 * 61));  // on every GPU of the group
  EXPECT_EQ(cache_of_sequence(model, 4096, {}), Bytes(4096LL * 576 * 2 * 61));
  EXPECT_EQ(cache_of_sequence(model, 4096, {}, 3, 5), Bytes(4096LL * 576 * 2 * 2));
}

TEST(KvCache, OfGroupedQueriesHoldsAKeyAndAValuePerHead) {
  const MoeModel model = shipped_model("qwen3-235b-a22b");  // 94 layers, 4 heads of 128
  EXPECT_EQ(cache_per_token(model, {}), Bytes(2LL * 4 * 128 * 2 * 94));
  EXPECT_EQ(cache_per_token(model, {.tp = 2}), Bytes(2LL * 2 * 128 * 2 * 94));
  EXPECT_EQ(cache_per_token(model, {.tp = 8}), Bytes(2LL * 1 * 128 * 2 * 94));  // copied
}

TEST(KvCache, OfWindowsDoesNotGrowBeyondThem) {
  const MoeModel model =
      shipped_model("gpt-oss-20b");  // 24 layers, 8 heads of 64, every other: 128
  const std::int64_t layer = 2LL * 8 * 64 * 2;
  EXPECT_EQ(cache_per_token(model, {}), Bytes(12 * layer));
  EXPECT_EQ(cache_of_sequence(model, 100, {}), Bytes(24 * 100 * layer));
  EXPECT_EQ(cache_of_sequence(model, 1000, {}), Bytes(12 * (1000 + 128) * layer));
}

TEST(KvCache, OfLinearAttentionIsAState) {
  const MoeModel model = shipped_model("qwen3-next-80b-a3b");
  const AttentionShape& shape = *model.attention->shape;
  const Bytes one = cache_of_sequence(model, 1, {}), two = cache_of_sequence(model, 2, {});
  EXPECT_EQ(two + one * -1, cache_per_token(model, {}));
  const std::int64_t states = 36LL * shape.linear->value_heads * 128 * 128 * 4;
  const std::int64_t seen = 36LL * shape.linear->convolved() * (shape.linear->conv - 1) * 2;
  EXPECT_EQ(one, cache_per_token(model, {}) + Bytes(states + seen));
}

TEST(KvCache, OfASequenceIsTheSameInParts) {
  for (const char* name : {"deepseek-v3", "qwen3-235b-a22b", "gpt-oss-20b", "qwen3-next-80b-a3b",
                           "nemotron-3-nano", "glm-5"}) {
    const MoeModel model = shipped_model(name);
    for (const CacheShard& shard : {CacheShard{}, CacheShard{DataType::fp8, 2, 1, model.mtp}}) {
      const SequenceCache parts = sequence_cache(model, shard);
      for (const std::int64_t tokens : {1, 100, 128, 129, 5000}) {
        EXPECT_EQ(parts.of(tokens), cache_of_sequence(model, tokens, shard)) << name << tokens;
      }
    }
  }
}

TEST(KvCache, OfAnIndexerGrowsByItsKeys) {
  const MoeModel model = shipped_model("glm-5");
  const Bytes one = cache_of_sequence(model, 1, {}), two = cache_of_sequence(model, 2, {});
  EXPECT_EQ(two + one * -1, cache_per_token(model, {}));
}

TEST(KvCache, OfMambaIsAState) {
  // Per layer: 64 heads of 64 x 128 in fp32, and 3 tokens of 4,096 + 2 x 8 x 128 elements.
  const MoeModel model = shipped_model("nemotron-3-nano");
  const auto layer = [&](const CacheShard& shard) {
    return cache_of_sequence(model, 1000, shard, 0, 1);
  };
  EXPECT_EQ(layer({}), Bytes(4096 * 128 * 4 + 3 * 6144 * 2));
  EXPECT_EQ(layer({.tp = 4}), Bytes(1024 * 128 * 4 + 3 * 1536 * 2));
}

}  // namespace
}  // namespace moesim
