// SPDX-License-Identifier: Apache-2.0
#include "sim/model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/model/weight_matrices.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

class WholeModel : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, WholeModel, testing::ValuesIn(whole_models()),
                         [](const auto& model) { return test_name(model.param); });

TEST(Parameters, AddUpToThePublishedTotals) {
  int published = 0;
  for (const std::string& name : whole_models()) {
    const MoeModel model = shipped_model(name);
    if (model.total_parameters == 0) continue;
    ++published;
    // Kimi-K2's report says 1.04T; the shapes of its own configuration give 1.3 % less.
    const double tolerance = name.starts_with("kimi-k2") ? 0.0135 : 0.006;
    const auto total = static_cast<double>(parameters_of(model).main());
    EXPECT_NEAR(total / model.total_parameters, 1, tolerance) << name;
  }
  EXPECT_EQ(published, 29);
}

TEST_P(WholeModel, BlocksAddUpToIt) {
  const MoeModel model = shipped_model(GetParam());
  BlockParameters sum;
  const auto add = [&](int layer, BlockKind kind) {
    const BlockParameters block = block_parameters(model, layer, kind);
    sum.split += block.split, sum.whole += block.whole, sum.routed += block.routed;
  };
  add(0, BlockKind::embedding);
  for (int layer = 0; layer < model.layers + model.mtp; ++layer) {
    if (layer >= model.layers) add(layer, BlockKind::mtp);
    const LayerBlocks blocks = blocks_of_layer(model, layer);
    if (blocks.mixer) add(layer, *blocks.mixer);
    if (blocks.ffn) add(layer, *blocks.ffn);
  }
  add(0, BlockKind::head);
  // In a multi-token-prediction layer's head, only the last norm is its own.
  const std::int64_t norms = std::int64_t{1} * model.mtp * model.hidden;
  EXPECT_EQ(sum.total() + norms, parameters_of(model).total());
}

TEST(Parameters, OfAModelThatFitsInOnesHead) {
  const MoeModel model = parse_moe_model(
      "name: x\nsource: none\nhidden: 10\nlayers: 3\nmoe_layers: {first: 1, count: 2}\n"
      "experts: 4\ntop_k: 2\nexpert_ffn: 5\nexpert_matrices: 3\nshared_experts: 1\n"
      "shared_ffn: 7\nshared_gate: true\nrouter_bias: true\nexpert_bias: true\n"
      "activations: bf16\nweights: bf16\ndense_ffn: 20\nvocabulary: 100\nmtp: 1\n"
      "attention: {heads: 4, kv_heads: 2, head_dim: 3, bias: true, output_bias: true,\n"
      "            sinks: true, qk_norm: true}\n",
      "m.yaml");
  const Parameters p = parameters_of(model);
  EXPECT_EQ(p.embedding, 1000);
  EXPECT_EQ(p.head, 1000);
  // Query 10 x 12, key and value 10 x 6 each, output 12 x 10; biases 24 and 10; 4 sinks; two norms
  // of 3.
  const std::int64_t attention = 120 + 120 + 120 + 24 + 10 + 4 + 6;
  EXPECT_EQ(p.attention, 3 * attention);
  EXPECT_EQ(p.norms, 7 * 10);
  EXPECT_EQ(p.dense_ffn, 3 * 10 * 20);
  EXPECT_EQ(p.router, 2 * 4 * 11);
  EXPECT_EQ(p.shared, 2 * (3 * 10 * 7 + 10));
  const std::int64_t expert = 3 * 10 * 5 + 2 * 5 + 10;
  EXPECT_EQ(p.routed, 2 * 4 * expert);
  // One more layer with three norms, two of the projection 20 x 10, and the last.
  EXPECT_EQ(p.mtp, attention + 20 + 4 * 11 + 220 + 4 * expert + 200 + 20 + 10);
  EXPECT_EQ(active_parameters_of(model).routed, 2 * 2 * expert);
}

// Experts of two matrices in a latent of 4: 2 x 4 x 5 each, two projections of 10 x 4 in each
// layer.
TEST(Parameters, OfExpertsInALatent) {
  const std::string text =
      "name: x\nsource: none\nhidden: 10\nlayers: 2\npattern: '*E'\nexperts: 4\ntop_k: 2\n"
      "expert_ffn: 5\nexpert_matrices: 2\nshared_experts: 1\nshared_ffn: 7\nactivations: bf16\n"
      "weights: bf16\nvocabulary: 100\nattention: {heads: 4, kv_heads: 2, head_dim: 3}\nlatent: ";
  const MoeModel model = parse_moe_model(text + "4\n", "m.yaml");
  EXPECT_EQ(model.row_bytes(), Bytes(8));
  EXPECT_EQ(parameters_of(model).routed, 4 * 40);
  EXPECT_EQ(parameters_of(model).shared, 2 * 10 * 7 + 80);
  EXPECT_EQ(active_parameters_of(model).routed, 2 * 40);
  const BlockParameters moe = block_parameters(model, 1, BlockKind::moe);
  EXPECT_EQ(moe.whole, 10 + 4 * 10 + 80);
  EXPECT_THROW(parse_moe_model(text + "10\n", "m.yaml"), Error);
}

TEST(Parameters, OfLinearAttentionByClosedForm) {
  // Qwen3-Next: of 2,048 elements queries and keys of 16 x 128, values of 32 x 128 with gates, two
  // rates per value head; a convolution over 4 tokens; decays and steps; norms of 128 and 2,048.
  const BlockParameters block =
      block_parameters(shipped_model("qwen3-next-80b-a3b"), 0, BlockKind::attention);
  const std::int64_t keys = 2 * 2048, values = 4096;
  EXPECT_EQ(block.split,
            2048 * (keys + 2 * values + 2 * 32 + values) + (keys + values) * 4 + 2 * 32);
  EXPECT_EQ(block.whole, 2048 + 128);
}

// The router's product is no weight that a layer holds in matrices of its own.
TEST(Parameters, OfExpertsBesidesTheRoutedOnesAreMatrices) {
  MoeModel model = shipped_model("deepseek-v3");
  const auto matrices = [&] { return weight_matrices(model, {5, BlockKind::moe}, {256, 256}); };
  EXPECT_THAT(matrices(),
              testing::ElementsAre(WeightMatrix{2 * 2048, 7168}, WeightMatrix{7168, 2048}));
  model.shared_experts = 0;
  model.latent = 1;
  EXPECT_THAT(matrices(), testing::ElementsAre(WeightMatrix{1, 7168}, WeightMatrix{7168, 1}));
}

TEST(Parameters, OfADividedExpertAreRoundedUp) {
  MoeModel model = shipped_model("deepseek-v3");
  model.expert_ffn = 5;
  EXPECT_THAT(expert_matrices(model, 2),
              testing::ElementsAre(WeightMatrix{2 * 3, 7168}, WeightMatrix{7168, 3}));
}

TEST(Parameters, PlaceholdersOfGradientsAreOneOfEachShape) {
  MoeModel model = shipped_model("deepseek-v3");
  model.weights = DataType::bf16;
  const HeldBlock moe{5, BlockKind::moe};
  const auto elements = [&](const std::vector<HeldBlock>& blocks) {
    return gradient_placeholders(model, blocks, {256, 256}, 2).value / 2;
  };
  // Of the shared expert, and of halves of routed ones: both matrices of each.
  EXPECT_EQ(elements({moe, moe}), 7168 * 3 * (2048 + 1024));
  const HeldBlock attention{5, BlockKind::attention};
  std::int64_t its = 0;
  for (const WeightMatrix& each : weight_matrices(model, attention, {256, 256})) {
    its += each.parameters();
  }
  EXPECT_EQ(elements({attention}), its);
}

// Technical report: 12.7B active of 120.6B, with the embedding and without multi-token prediction.
TEST(Parameters, OfNemotron3Super) {
  const MoeModel model = shipped_model("nemotron-3-super");
  EXPECT_NEAR(static_cast<double>(active_parameters_of(model).main()) / 12.7e9, 1, 0.01);
}

TEST(Parameters, OfMultiHeadLatentAttention) {
  // deepseek-ai/DeepSeek-V3 README: 671B in all, 36.7B active with 0.9B each of embedding and head,
  // and 14B of the multi-token-prediction module, 11.5B without its copies of those two.
  const MoeModel v3 = shipped_model("deepseek-v3");
  const Parameters p = parameters_of(v3), active = active_parameters_of(v3);
  EXPECT_EQ(v3.attention->parameters, 187105280);
  EXPECT_EQ(v3.attention->score_width, 40960);
  EXPECT_NEAR(static_cast<double>(p.main()), 671e9, 0.2e9);
  // 0.9B of one of the tables are not counted.
  EXPECT_NEAR(static_cast<double>(active.main() - active.embedding), 36.7e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(p.mtp), 11.5e9, 0.12e9);
  EXPECT_NEAR(static_cast<double>(p.total() + p.embedding + p.head), 685e9, 0.7e9);
}

TEST(Parameters, OfGptOssByPart) {
  // arXiv:2508.10925, table 1: MLP, attention, embedding and unembedding, active, all in 1e9.
  struct PartsRow {
    const char* model;
    double mlp, attention, tables, active;
  };
  for (const PartsRow& row : {PartsRow{"gpt-oss-120b", 114.71, 0.96, 1.16, 5.13},
                              PartsRow{"gpt-oss-20b", 19.12, 0.64, 1.16, 3.61}}) {
    const MoeModel model = shipped_model(row.model);
    const Parameters p = parameters_of(model), active = active_parameters_of(model);
    const auto billions = [](std::int64_t n) { return static_cast<double>(n) / 1e9; };
    EXPECT_NEAR(billions(p.routed + p.router), row.mlp, 0.01) << row.model;
    EXPECT_NEAR(billions(p.attention), row.attention, 0.01) << row.model;
    EXPECT_NEAR(billions(p.embedding + p.head), row.tables, 0.01) << row.model;
    EXPECT_NEAR(billions(active.main() - active.embedding), row.active, 0.01) << row.model;
  }
}

TEST(Parameters, ActiveOnesRoundToWhatModelsAreNamedFor) {
  struct ActiveRow {
    const char* model;
    double active, rounding;
    bool tables;  // embedding and head count
  };
  for (const ActiveRow& row :
       {ActiveRow{"qwen3-30b-a3b", 3.3, 0.06, true}, ActiveRow{"qwen3-235b-a22b", 22, 0.5, true},
        ActiveRow{"qwen2-57b-a14b", 14, 0.5, true}, ActiveRow{"deepseek-v2", 21, 0.5, true},
        ActiveRow{"kimi-k2", 32.6, 0.3, true}, ActiveRow{"mixtral-8x22b", 39, 0.5, true},
        ActiveRow{"mixtral-8x7b-e8k2", 12.9, 0.05, true},
        ActiveRow{"moonlight-16b-a3b", 2.24, 0.01, false},
        ActiveRow{"llama-4-maverick", 17, 0.5, true}, ActiveRow{"deepseek-v2-lite", 2.4, 0.3, true},
        ActiveRow{"olmoe", 1.3, 0.05, true}}) {
    const Parameters active = active_parameters_of(shipped_model(row.model));
    const std::int64_t tables = row.tables ? 0 : active.embedding + active.head;
    EXPECT_NEAR(static_cast<double>(active.main() - tables) / 1e9, row.active, row.rounding)
        << row.model;
  }
}

TEST(Parameters, OfMultiTokenPredictionAreAsTheLastLayers) {
  const MoeModel model = shipped_model("qwen3-next-80b-a3b");
  const auto attention = [&](int layer) {
    return block_parameters(model, layer, BlockKind::attention).total();
  };
  EXPECT_EQ(attention(48), attention(47));
  EXPECT_NE(attention(48), attention(44));  // linear
}

TEST(Parameters, OfATiedHead) {
  MoeModel model = shipped_model("llama-3-8b");
  const std::int64_t apart = parameters_of(model).total();
  model.tied_embeddings = true;
  EXPECT_EQ(apart - parameters_of(model).total(), std::int64_t{128256} * 4096);
  EXPECT_EQ(block_parameters(model, 0, BlockKind::head).total(), 4096);
}

TEST(Parameters, OfAModelThatIsNotWhole) {
  try {
    parameters_of(shipped_model("switch-c-2048"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("the model 'switch-c-2048' is incomplete: its "
                                             "file lacks 'vocabulary', 'attention.heads'"));
  }
}

}  // namespace
}  // namespace moesim
