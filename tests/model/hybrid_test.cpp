// SPDX-License-Identifier: Apache-2.0
// Hybrids of Mamba-2: what their files may say, and what their blocks hold, compute and keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/model/block_steps.h"
#include "sim/model/host_model.h"
#include "sim/model/model_flops.h"
#include "tests/error_of.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

std::string hybrid_file(const std::string& layers) {
  return "name: x\nsource: none\nhidden: 10\nexperts: 4\ntop_k: 2\nexpert_ffn: 5\n"
         "expert_matrices: 2\nactivations: bf16\nweights: bf16\nvocabulary: 100\n"
         "attention: {heads: 4, kv_heads: 2, head_dim: 3}\n" +
         layers;
}

const std::string mamba_key = "mamba: {heads: 4, head_dim: 3, groups: 2, state: 5, conv: 4}\n";

MoeModel hybrid_of(const std::string& layers) {
  return parse_moe_model(hybrid_file(layers), "m.yaml");
}

std::string hybrid_mistakes(const std::string& layers) {
  return error_of([&] { hybrid_of(layers); });
}

TEST(Hybrid, HasTheLayersOfItsPattern) {
  const MoeModel model = hybrid_of("layers: 5\npattern: 'ME*-E'\ndense_ffn: 20\n" + mamba_key);
  EXPECT_THAT(model.moe_layers, testing::ElementsAre(1, 4));
  using enum BlockKind;
  const auto mixer = [&](int layer) { return blocks_of_layer(model, layer).mixer; };
  const auto ffn = [&](int layer) { return blocks_of_layer(model, layer).ffn; };
  EXPECT_EQ(mixer(0), mamba);
  EXPECT_EQ(mixer(2), attention);
  EXPECT_EQ(ffn(3), dense_ffn);
  EXPECT_EQ(ffn(4), moe);
  for (const int layer : {0, 2}) EXPECT_FALSE(ffn(layer));
  for (const int layer : {1, 3, 4}) EXPECT_FALSE(mixer(layer));
  EXPECT_EQ(model.missing_of_whole(), "");
}

TEST(Hybrid, WithoutAttentionIsWhole) {
  MoeModel model = hybrid_of("layers: 2\npattern: ME\n" + mamba_key);
  model.attention.reset();
  EXPECT_EQ(model.missing_of_whole(), "");
  EXPECT_GT(training_flops(model).total(), 0);
}

TEST(Hybrid, RefusesWhatDoesNotFit) {
  EXPECT_EQ(hybrid_mistakes("layers: 3\npattern: MEQ\n" + mamba_key),
            "m.yaml:13:10: error: 'pattern' has 'Q' at layer 2\n"
            "  pattern: MEQ\n"
            "           ^\n"
            "hint: M: Mamba-2, *: attention, E: experts, -: dense FFN\n");
  EXPECT_THAT(hybrid_mistakes("layers: 4\npattern: MEM\n" + mamba_key),
              testing::HasSubstr("'pattern' has 3 layers, but 'layers' is 4"));
  EXPECT_THAT(hybrid_mistakes("layers: 2\npattern: ME\n"),
              testing::HasSubstr("'pattern' has layers 'M', which need 'mamba' next to it"));
  EXPECT_THAT(hybrid_mistakes("layers: 2\npattern: '*E'\n" + mamba_key),
              testing::HasSubstr("'mamba' has no effect: 'pattern' has no layer 'M'"));
  EXPECT_THAT(
      hybrid_mistakes("layers: 2\npattern: ME\nmamba: {heads: 4, head_dim: 3, groups: 2}\n"),
      testing::AllOf(testing::HasSubstr("'state'"), testing::HasSubstr("'conv'")));
  EXPECT_THAT(
      hybrid_mistakes(
          "layers: 2\npattern: ME\nmamba: {heads: 4, head_dim: 3, groups: 3, state: 5, conv: 4}\n"),
      testing::HasSubstr("'mamba.groups' is 3, which does not divide 4 heads"));
  EXPECT_THAT(hybrid_mistakes("layers: 3\npattern: ME-\n" + mamba_key),
              testing::HasSubstr("'pattern' has layers '-', which need 'dense_ffn' next to it"));
  EXPECT_THAT(hybrid_mistakes("layers: 2\npattern: ME\ndense_ffn: 20\n" + mamba_key),
              testing::HasSubstr("'dense_ffn' has no effect: 'pattern' has no layer '-'"));
  EXPECT_THAT(hybrid_mistakes("layers: 2\npattern: MM\n" + mamba_key),
              testing::HasSubstr("'pattern' has no layer 'E'"));
  EXPECT_THAT(hybrid_mistakes("layers: 2\npattern: ME\nmoe_layers: {first: 0, count: 1}\nmtp: 1\n" +
                              mamba_key),
              testing::AllOf(testing::HasSubstr("'moe_layers' and 'pattern' exclude each other"),
                             testing::HasSubstr("'mtp' needs a layer '*' in 'pattern'")));
  EXPECT_THAT(hybrid_mistakes("layers: 2\nmoe_layers: {first: 0, count: 2}\n" + mamba_key),
              testing::HasSubstr("'mamba' needs 'pattern' next to it"));
}

// Of the shape above: inner 12, B and C 10 each, convolved 32, projected 12 + 32 + 4 = 48.
constexpr std::int64_t inner = 12, convolved = 32, projected = 48;

TEST(Hybrid, ParametersByClosedForm) {
  const MoeModel model = hybrid_of("layers: 5\npattern: 'ME*ME'\n" + mamba_key);
  const Parameters p = parameters_of(model);
  const std::int64_t mixer = 10 * projected + convolved * 5 + 3 * 4 + inner + inner * 10;
  EXPECT_EQ(p.mamba, 2 * mixer);
  EXPECT_EQ(p.attention, 10 * (12 + 6 + 6) + 12 * 10);
  EXPECT_EQ(p.norms, 6 * 10);
  EXPECT_EQ(p.router, 2 * 4 * 10);
  EXPECT_EQ(p.routed, 2 * 4 * 2 * 10 * 5);
  EXPECT_EQ(p.dense_ffn, 0);
  const BlockParameters block = block_parameters(model, 0, BlockKind::mamba);
  EXPECT_EQ(block.split, mixer);
  EXPECT_EQ(block.whole, 10);
  EXPECT_EQ(active_parameters_of(model).routed, 2 * 2 * 2 * 10 * 5);
}

TEST(Hybrid, FlopByClosedForm) {
  const MoeModel model = hybrid_of("layers: 2\npattern: ME\n" + mamba_key);
  const ModelFlops flops = training_flops(model);
  EXPECT_DOUBLE_EQ(flops.projections, 6 * 10 * (projected + inner));
  // 128 tokens of a chunk: products of B and C, with the inputs, into the state, out of it.
  EXPECT_DOUBLE_EQ(flops.scores, 6 * (128 * 10 + 128 * inner + 2 * 5 * inner + 4 * convolved));
  const BlockShard shard{256, 128};
  double scan = 0, back = 0;
  for (const BlockKernel& k : forward_kernels(model, 0, BlockKind::mamba, shard)) {
    if (k.kind == OpKind::mamba_scan) scan += flops_of(k.kernel).value;
  }
  for (const BlockKernel& k : dgrad_kernels(model, 0, BlockKind::mamba, shard)) {
    if (k.kind == OpKind::mamba_scan) back += flops_of(k.kernel).value;
  }
  EXPECT_DOUBLE_EQ(scan, 256 * 2.0 * (128 * 10 + 128 * inner + 2 * 5 * inner));
  EXPECT_DOUBLE_EQ(back, 2 * scan + 256 * 2.0 * (128 * 10 + 5 * inner));  // some of it again
  for (const BlockKernel& k : wgrad_kernels(model, 0, BlockKind::mamba, shard)) {
    EXPECT_EQ(k.kind, OpKind::mamba_projection);
  }
}

TEST(Hybrid, NemotronsFlopAreMegatronBridgesLessItsInnerWidth) {
  const MoeModel model = shipped_model("nemotron-3-nano");
  const double ours = training_flops(model, {.sequence = 8192}).total();
  // 277.72 TFLOP/s over 657.42 ms for 8192 tokens: it takes twice the hidden width for the inner
  // one, and 7 x inner x state for the scan (flop_utils.py, mamba_layer_flops).
  const double wide = 2 * 2688, narrow = 64 * 64;
  const double projections = 6 * 2688 * 3 * (wide - narrow);
  const double scan = 3 * 7 * wide * 128 - 6 * (128 * 1024 + 384 * narrow + 4 * 6144);
  EXPECT_NEAR((ours + 23 * (projections + scan)) / (277.72e12 * 0.65742 / 8192), 1, 1e-3);
}

// 564 TFLOP/s at 6,656 tokens/s of a GPU (Megatron-Bridge's tables, 26.04.01), by the same formula,
// with both multi-token-prediction layers. Its inner width is twice the hidden one.
TEST(Hybrid, NemotronSupersFlopAreMegatronBridges) {
  const MoeModel model = shipped_model("nemotron-3-super");
  const double ours = training_flops(model, {.sequence = 8192}).total();
  EXPECT_NEAR(ours / (564e12 / 6656), 1, 5e-3);
}

TEST(Hybrid, KeptBytesByClosedForm) {
  const MoeModel model = hybrid_of("layers: 2\npattern: ME\n" + mamba_key);
  BlockShard shard{256, 128};
  const auto kept = [&](const Recompute& recompute) {
    return kept_activations(model, 0, BlockKind::mamba, shard, recompute).value;
  };
  // Input and normed input; projected rows; before the gate, behind it, and normed.
  EXPECT_EQ(kept({}), 256 * 2 * (2 * 10 + projected + 3 * inner));
  // The modules of other blocks do not change it; its norm is part of the projection's kernel.
  EXPECT_EQ(kept({RecomputeModule::moe, RecomputeModule::layernorm, RecomputeModule::core_attn}),
            kept({}));
  EXPECT_EQ(kept({RecomputeModule::full}), 256 * 2 * 10);
  shard.gemm_types = GemmTypes::only(DataType::fp8);
  EXPECT_EQ(kept({}), 256 * (3 * 10 + 2 * projected + 5 * inner));
}

TEST(Hybrid, GraphsCaptureMambaByItsOwnName) {
  const OpType scan{OpKind::mamba_scan}, norm{OpKind::norm}, scores{OpKind::attention_scores};
  EXPECT_TRUE(captured({GraphModule::mamba}, scan, {}));
  EXPECT_FALSE(captured({GraphModule::attn}, scan, {}));
  EXPECT_FALSE(captured({GraphModule::mamba}, scores, {}));
  EXPECT_TRUE(captured({GraphModule::mamba}, norm, BlockKind::mamba));
  EXPECT_FALSE(captured({GraphModule::mamba}, norm, BlockKind::attention));
}

TEST(Hybrid, NemotronIsDividedAsItsHeadsAre) {
  const MoeModel model = shipped_model("nemotron-3-nano");
  const BlockShard whole{8192, 4096}, half{8192, 4096, 2};
  const auto flop = [&](const BlockShard& shard) {
    double sum = 0;
    for (const BlockKernel& k : forward_kernels(model, 0, BlockKind::mamba, shard)) {
      sum += flops_of(k.kernel).value;
    }
    return sum;
  };
  EXPECT_DOUBLE_EQ(2 * flop(half), flop(whole));
  EXPECT_NEAR(static_cast<double>(parameters_of(model).main()) / 31.6e9, 1, 0.005);
  // 3.2e9 without the embedding, 3.6e9 with it, as its model card says.
  const Parameters active = active_parameters_of(model);
  EXPECT_NEAR(static_cast<double>(active.main()) / 3.6e9, 1, 0.01);
  EXPECT_NEAR(static_cast<double>(active.main() - active.embedding) / 3.2e9, 1, 0.01);
}

}  // namespace
}  // namespace moesim
