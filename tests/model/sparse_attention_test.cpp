// SPDX-License-Identifier: Apache-2.0
// Attention to chosen and to compressed keys: keys, parameters, cache, residual streams.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/model/blocks.h"
#include "sim/model/kv_cache.h"
#include "tests/error_of.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

TEST(SparseAttention, SeesTheKeysThatAreCountedOneByOne) {
  const AttentionShape v4 = *shipped_model("deepseek-v4-flash").attention->shape;
  const AttentionShape glm = *shipped_model("glm-5").attention->shape;
  for (const int sequence : {100, 2048, 5000, 40000}) {
    double window = 0, chosen = 0, compressed = 0, sparse = 0;
    for (int i = 1; i <= sequence; ++i) {
      window += std::min(i, 128);
      chosen += std::min(i / 4.0, 512.0);
      compressed += i / 128.0;
      sparse += std::min(i, 2048);
    }
    const double attended = (sequence + 1) / 2.0;
    const auto near = [&](double keys, double sum) {
      EXPECT_NEAR(keys * sequence / sum, 1, 0.01) << sequence;
    };
    near(v4.keys_of(0, attended), window);
    near(v4.keys_of(2, attended), window + chosen);
    near(v4.keys_of(3, attended), window + compressed);
    near(glm.keys_of(5, attended), sparse);
  }
}

TEST(SparseAttention, HasTheParametersOfItsReleasedShapes) {
  const MoeModel v4 = shipped_model("deepseek-v4-flash");
  const auto whole = [&](int layer) {
    const BlockParameters p = block_parameters(v4, layer, BlockKind::attention);
    return p.split + p.whole;
  };
  // Queries down and up, key, output in 8 groups and joined; norms, sinks; mixing of 4 streams.
  const std::int64_t window = 4096 * 1024 + 1024 * 64 * 512 + 4096 * 512 + 64 * 512 * 1024 +
                              8 * 1024 * 4096 + 4096 + 1024 + 512 + 64 + 4 * 4096 * 24;
  EXPECT_EQ(whole(0), window);
  EXPECT_EQ(whole(3), window + 4096 * 2 * 512);
  EXPECT_EQ(whole(2), window + 4096 * 4 * 512 + 1024 * 64 * 128 + 4096 * (64 + 4 * 128));
  EXPECT_NEAR(static_cast<double>(parameters_of(v4).main()), 284.4e9, 0.2e9);
}

TEST(SparseAttention, CachesAWindowAndOneKeyForSeveralTokens) {
  const MoeModel v4 = shipped_model("deepseek-v4-flash");
  const CacheShard shard{DataType::bf16, 1, 1};
  const auto layer = [&](int at) { return cache_of_sequence(v4, 8000, shard, at, at + 1).value; };
  EXPECT_EQ(layer(0), 128 * 512 * 2);
  EXPECT_EQ(layer(2), (128 + 2000) * 512 * 2 + 2000 * 128);
  EXPECT_EQ(layer(3), (128 + 63) * 512 * 2);
  EXPECT_EQ(cache_of_sequence(shipped_model("glm-5"), 8000, shard, 5, 6).value,
            8000 * (576 * 2 + 128));
}

TEST(SparseAttention, KeepsAndReadsAllResidualStreams) {
  MoeModel model = shipped_model("deepseek-v4-flash");
  const BlockShard shard{4096, 2048};
  const auto bytes_of_norms = [](const std::vector<BlockKernel>& kernels) {
    Bytes sum;
    for (const BlockKernel& kernel : kernels) {
      if (kernel.kind == OpKind::norm) sum += memory_traffic_of(kernel.kernel);
    }
    return sum.value;
  };
  const auto bytes = [&](BlockKind block) {
    return bytes_of_norms(forward_kernels(model, 5, block, shard));
  };
  const auto gradients = [&] {
    return bytes_of_norms(dgrad_kernels(model, 5, BlockKind::moe, shard));
  };
  const auto kept = [&] { return kept_activations(model, 5, BlockKind::moe, shard, {}).value; };
  const std::int64_t four = bytes(BlockKind::moe), kept_of_four = kept(),
                     gradients_of_four = gradients();
  model.residual_streams = 1;
  const std::int64_t row = 4096 * 4096 * 2;
  // 4 streams read twice and written once with two rows of the block; one: two read, one written.
  EXPECT_EQ(four - bytes(BlockKind::moe), (3 * 4 + 2 - 3) * row);
  // Their gradients: read four times with two rows, written twice with one.
  EXPECT_EQ(gradients_of_four - gradients(), (6 * 4 + 3 - 3) * row);
  EXPECT_EQ(kept_of_four - kept(), 3 * row);
}

/// Parses a model of 3 layers whose attention has these keys after the usual ones.
MoeModel with_attention(const std::string& keys) {
  return parse_moe_model(
      "name: x\nsource: test\nhidden: 64\nlayers: 3\nmoe_layers: {first: 0, count: 3}\n"
      "experts: 4\ntop_k: 2\nexpert_ffn: 32\nexpert_matrices: 3\nactivations: bf16\n"
      "weights: bf16\ngate: {score: softmax}\nvocabulary: 128\n"
      "attention: {kind: compressed, heads: 4, head_dim: 16, rope_dim: 8, q_rank: 16, window: 8, "
      "output_rank: 8, " +
          keys + "}\n",
      "x.yaml");
}

std::string sparse_refusal_of(const std::string& keys) {
  return error_of([&] { with_attention(keys); });
}

TEST(SparseAttention, NeedsARatioForEveryLayer) {
  EXPECT_NO_THROW(with_attention("output_groups: 2, ratios: [0, 4, 8]"));
  const std::string all = sparse_refusal_of("output_groups: 3, ratios: [0, 4]");
  EXPECT_NE(all.find("'ratios' has 2 numbers for 3 layers"), std::string::npos) << all;
  EXPECT_NE(all.find("'output_groups' is 3, which does not divide 4 heads"), std::string::npos);
  const std::string none = sparse_refusal_of("output_groups: 2");
  EXPECT_NE(none.find("'kind: compressed' needs 'ratios' next to it"), std::string::npos) << none;
}

}  // namespace
}  // namespace moesim
