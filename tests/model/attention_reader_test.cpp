// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/model/moe_model.h"
#include "tests/error_of.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

const std::string dense_head =
    "name: x\nsource: none\nhidden: 64\nlayers: 4\ndense_ffn: 8\ndense_matrices: 3\n"
    "activations: bf16\nweights: bf16\nvocabulary: 100\n";

std::string mistakes_of(const std::string& attention) {
  return error_of(
      [&] { parse_dense_model(dense_head + "attention: " + attention + "\n", "m.yaml"); });
}

TEST(AttentionReader, KeepsWhatShapesAmountToEqualToWhatFilesSaid) {
  // parameters and score_width as the files said them before they said the shapes.
  struct AmountsRow {
    const char* model;
    std::int64_t parameters, score_width;
  };
  for (const AmountsRow& row :
       {AmountsRow{"deepseek-v3", 187105280, 40960}, AmountsRow{"deepseek-v2-lite", 13762560, 5120},
        AmountsRow{"qwen3-30b-a3b", 2048 * 128 * 72, 8192},
        AmountsRow{"gpt-oss-20b", 2880 * 64 * 144, 8192},
        AmountsRow{"mixtral-8x22b-e8k2", 6144 * 128 * 112, 12288}}) {
    const MoeModel model = shipped_model(row.model);
    EXPECT_EQ(model.attention->parameters, row.parameters) << row.model;
    EXPECT_EQ(model.attention->score_width, row.score_width) << row.model;
  }
}

TEST(AttentionReader, TakesAmountsAloneOrBesideTheirShape) {
  const auto read = [](const std::string& attention) {
    return *parse_dense_model(dense_head + "attention: " + attention + "\n", "m.yaml").attention;
  };
  EXPECT_FALSE(read("{parameters: 5, score_width: 6}").shape);
  EXPECT_EQ(read("{parameters: 5, score_width: 6}").score_width, 6);
  EXPECT_EQ(read("{heads: 4, head_dim: 16, parameters: 16384, score_width: 128}").parameters,
            16384);
  EXPECT_EQ(mistakes_of("{heads: 4, head_dim: 16, parameters: 16385}"),
            "m.yaml:10:49: error: 'parameters' is 16385, but the heads amount to 16384\n"
            "  attention: {heads: 4, head_dim: 16, parameters: 16385}\n"
            "                                                  ^\n"
            "hint: take it away: it follows from the heads\n");
}

TEST(AttentionReader, RefusesWhatDoesNotFit) {
  using testing::HasSubstr;
  EXPECT_THAT(mistakes_of("{heads: 4, kv_heads: 3, head_dim: 16}"),
              HasSubstr("'kv_heads' is 3, which does not divide 4 heads"));
  EXPECT_THAT(mistakes_of("{kind: mlb, heads: 4}"), HasSubstr("did you mean 'mla'?"));
  EXPECT_THAT(mistakes_of("{kind: mla, heads: 4, kv_rank: 8, nope_dim: 4, rope_dim: 4}"),
              HasSubstr("value_dim"));
  EXPECT_THAT(mistakes_of("{heads: 4, head_dim: 16, window: 4}"),
              HasSubstr("'window' and 'linear' need 'full_every' next to them"));
  EXPECT_THAT(mistakes_of("{heads: 4, head_dim: 16, full_every: 2}"),
              HasSubstr("'full_every' has no effect"));
  EXPECT_THAT(mistakes_of("{heads: 4, head_dim: 16, full_every: 2, window: 4, linear: {key_heads: "
                          "1, value_heads: 1, key_dim: 1, value_dim: 1, conv: 1}}"),
              HasSubstr("'linear' and 'window' exclude each other"));
}

TEST(WholeModels, RefuseWhatHasNoEffect) {
  const std::string head =
      "name: x\nsource: none\nhidden: 8\nlayers: 2\nmoe_layers: {first: 0, count: 2}\n"
      "experts: 4\ntop_k: 2\nexpert_ffn: 8\nexpert_matrices: 3\nactivations: bf16\n"
      "weights: bf16\n";
  const auto mistakes = [&](const std::string& line) {
    return error_of([&] { parse_moe_model(head + line, "m.yaml"); });
  };
  EXPECT_EQ(mistakes("vocabulary: 10\n"), "");
  EXPECT_THAT(mistakes("dense_ffn: 10\n"),
              testing::HasSubstr("'dense_ffn' has no effect: every layer has experts"));
  EXPECT_THAT(mistakes("shared_gate: true\n"),
              testing::HasSubstr("'shared_gate' has no effect: 'shared_experts' is 0"));
}

TEST(DenseModels, AreNoModelsWithExperts) {
  const MoeModel model = shipped_model("llama-3-8b");
  EXPECT_TRUE(model.moe_layers.empty());
  EXPECT_FALSE(model.is_moe_layer(0));
  EXPECT_TRUE(read_moe_model(data_file("models", "llama-3-8b")).moe_layers.empty());
  EXPECT_THROW(parse_dense_model(dense_head + "experts: 4\n", "m.yaml"), Error);
}

}  // namespace
}  // namespace moesim
