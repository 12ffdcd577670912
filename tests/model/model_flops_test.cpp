// SPDX-License-Identifier: Apache-2.0
#include "sim/model/model_flops.h"

#include <gtest/gtest.h>

#include "tests/model/whole_model.h"

namespace moesim {
namespace {

double giga(const MoeModel& model, const FlopCount& count = {}) {
  return training_flops(model, count).total() / 1e9;
}

TEST(ModelFlops, AreThoseThatMegatronBridgeReports) {
  // TFLOP/s over tokens/s of its performance tables, at 4096 tokens.
  EXPECT_NEAR(giga(shipped_model("qwen3-30b-a3b")) / 23.0, 1, 0.01);
  EXPECT_NEAR(giga(shipped_model("qwen3-235b-a22b")) / 148.0, 1, 0.01);
  EXPECT_NEAR(giga(shipped_model("deepseek-v3")) / 260, 1, 0.01);
  EXPECT_NEAR(giga(shipped_model("deepseek-v3"), {.mtp = false}) / 249.5, 1, 0.01);
  EXPECT_NEAR(giga(shipped_model("kimi-k2")) / 204.5, 1, 0.01);
  EXPECT_NEAR(giga(shipped_model("gpt-oss-120b")) / 32.6, 1, 0.01);
}

TEST(ModelFlops, OfGptOssBefore2606CountTwoMatricesOfThreeAndNoWindows) {
  // Before its release 26.06 Megatron-Bridge took only SiLU for gated, and knew no windows.
  MoeModel model = shipped_model("gpt-oss-120b");
  model.expert_matrices = 2;
  EXPECT_NEAR(giga(model, {.windows = false}) / 27.2, 1, 0.01);
  // Its release 25.11 on GB200 and GB300: scores in full, too.
  EXPECT_NEAR(giga(model, {.causal = false, .windows = false}) / 30.7, 1, 0.01);
}

TEST(ModelFlops, AreThoseOfDeepSeeksOwnRun) {
  // arXiv:2505.09343, table 4: 2048 GPUs, 15360 sequences of 4096 tokens in 19.926 s, 385 TFLOP/s
  // per GPU causal and 432 non-causal.
  const MoeModel model = shipped_model("deepseek-v3");
  const double per_token = 19.926 * 2048 / (15360.0 * 4096) * 1e3;
  EXPECT_NEAR(giga(model, {.mtp = false}) / (385 * per_token), 1, 0.01);
  EXPECT_NEAR(giga(model, {.causal = false, .mtp = false}) / (432 * per_token), 1, 0.01);
}

TEST(ModelFlops, OfOneHead) {
  const MoeModel model = parse_dense_model(
      "name: x\nsource: none\nhidden: 10\nlayers: 2\ndense_ffn: 20\ndense_matrices: 2\n"
      "activations: bf16\nweights: bf16\nvocabulary: 100\n"
      "attention: {heads: 5, head_dim: 2, window: 3, full_every: 2}\n",
      "m.yaml");
  const ModelFlops flops = training_flops(model, {.sequence = 8});
  EXPECT_DOUBLE_EQ(flops.projections, 6 * 2 * 400);
  EXPECT_DOUBLE_EQ(flops.ffn, 6 * 2 * 400);
  EXPECT_DOUBLE_EQ(flops.head, 6 * 1000);
  // 4 keys in the full layer; 3 - 3 x 2 / (2 x 7) in the window, for Megatron's 4 as the mean of
  // 1 ... 7.
  EXPECT_DOUBLE_EQ(flops.scores, 6 * 20 * (4 + 3 - 3.0 / 7));
  const ModelFlops full = training_flops(model, {.sequence = 8, .causal = false, .windows = false});
  EXPECT_DOUBLE_EQ(full.scores, 6 * 20 * (8 + 8));
}

TEST(ModelFlops, OfTheRouterOnlyWhereAsked) {
  const MoeModel model = shipped_model("qwen3-30b-a3b");
  EXPECT_DOUBLE_EQ(training_flops(model).router, 0);
  EXPECT_DOUBLE_EQ(training_flops(model, {.router = true}).router, 6.0 * 48 * 2048 * 128);
}

TEST(AttentionShape, WindowsHoldTheMeanOfTheirKeys) {
  AttentionShape shape;
  shape.window = 5;
  shape.full_every = 3;
  for (const int sequence : {1, 4, 5, 6, 17}) {
    double keys = 0;
    for (int query = 0; query < sequence; ++query) keys += std::min(query + 1, shape.window);
    const double attended = (sequence + 1) / 2.0;
    EXPECT_DOUBLE_EQ(shape.keys_of(0, attended), keys / sequence);
    EXPECT_DOUBLE_EQ(shape.keys_of(2, attended), attended);
  }
}

}  // namespace
}  // namespace moesim
