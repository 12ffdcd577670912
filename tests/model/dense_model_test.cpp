// SPDX-License-Identifier: Apache-2.0
// Models whose layers are all dense: parameters counted one by one, flop by the usual formula,
// files of Hugging Face, and what contradicts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/model/hf_config.h"
#include "sim/model/layer_numbers.h"
#include "sim/model/model_flops.h"
#include "sim/model/parameters.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

using testing::HasSubstr;

TEST(DenseModel, ParametersAreCountedOneByOne) {
  // Llama 3.1 8B: 32 layers of q, k, v, o (4096 x 4096, twice 4096 x 1024, 4096 x 4096), three
  // matrices of 4096 x 14336 and two norms; embedding, head, the last norm.
  const std::int64_t layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096;
  const std::int64_t words = 128256 * 4096;
  EXPECT_EQ(parameters_of(shipped_model("llama-3.1-8b")).total(), 32 * layer + 2 * words + 4096);
  EXPECT_EQ(parameters_of(shipped_model("llama-3.1-8b")).total(), 8030261248);  // its safetensors
  // GPT-3: four square matrices with a bias each, two of 12288 x 49152, two norms; a tied head.
  const std::int64_t h = 12288, gpt = 12 * h * h + 4 * h + 2 * h;
  EXPECT_EQ(parameters_of(shipped_model("gpt-3-175b")).total(), 96 * gpt + 50257 * h + h);
}

TEST(DenseModel, ActiveParametersAreAll) {
  for (const std::string& name : data_names("models/dense")) {
    const MoeModel model = shipped_model(name);
    EXPECT_EQ(active_parameters_of(model).total(), parameters_of(model).total()) << name;
  }
}

TEST(DenseModel, FlopsAreSixPerParameterAndTwelveForScores) {
  // 6 N with N less the embedding's look-up and norms, and 12 x layers x hidden x sequence / 2 of
  // causal scores (PaLM, arXiv:2204.02311, appendix B).
  const MoeModel model = shipped_model("llama-3.1-8b");
  const std::int64_t layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336;
  const double products = 6.0 * static_cast<double>(32 * layer + std::int64_t{128256} * 4096);
  const double scores = 12.0 * 32 * 4096 * 1024 / 2;
  EXPECT_DOUBLE_EQ(training_flops(model, {.sequence = 1024}).total(), products + scores);
}

TEST(DenseModel, IsReadWhereverModelsAre) {
  const MoeModel model = read_moe_model(data_file("models", "llama-3-8b"));
  EXPECT_EQ(model.experts, 0);
  EXPECT_EQ(model.expert_matrices, 3);
  EXPECT_TRUE(model.moe_layers.empty());
  EXPECT_EQ(model.missing_of_whole(), "");
  EXPECT_EQ(read_moe_model(data_file("models", "tiny-moe")).experts, 32);
  EXPECT_EQ(dense_layers_text({0, 1}, model), "the model 'llama-3-8b' is dense: it routes nothing");
}

TEST(DenseLayers, OfAModelWithExpertsAreNamed) {
  const MoeModel model = read_moe_model(data_file("models/moe", "deepseek-v3"));
  EXPECT_EQ(dense_layers({0, 2, 3, 60}, model), (std::vector{0, 2}));
  const std::string rest = " dense in the model 'deepseek-v3', whose MoE layers are 3..60";
  EXPECT_EQ(dense_layers_text({2}, model), "layer 2 is" + rest);
  EXPECT_EQ(dense_layers_text({0, 1}, model), "layers 0..1 are" + rest);
  EXPECT_EQ(dense_layers_text({0, 2}, model), "layers 0, 2 are" + rest);
}

TEST(DenseModel, WithExpertsContradictsItself) {
  const std::string file =
      "name: x\nsource: none\nhidden: 8\nlayers: 2\ndense_ffn: 8\ndense_matrices: 2\n"
      "activations: bf16\nweights: bf16\n";
  EXPECT_EQ(parse_moe_model(file, "m.yaml").experts, 0);
  try {
    parse_moe_model(file + "experts: 4\ntop_k: 2\n", "m.yaml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("m.yaml:9:10: error: 'experts' in a dense model"));
    EXPECT_THAT(e.what(), HasSubstr("m.yaml:10:8: error: 'top_k' in a dense model"));
    EXPECT_THAT(e.what(), HasSubstr("hint: leave one of them out"));
  }
}

/// Keys of a config.json, and the parameters of the published checkpoint.
struct HfDense {
  const char* json;
  double parameters;
};

TEST(DenseModel, OfHuggingFaceHasThePublishedParameters) {
  // The last has biases of its FFN and norms besides, 0.01 %.
  for (const HfDense& is :
       {HfDense{R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false,
          "torch_dtype": "bfloat16", "vocab_size": 128256})",
                8030261248},
        HfDense{R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})",
                7241732096},
        HfDense{R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
          "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
          "use_sliding_window": false, "tie_word_embeddings": false, "vocab_size": 152064})",
                7615616512},
        HfDense{R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
          "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "attention_bias": false, "tie_word_embeddings": false,
          "vocab_size": 151936})",
                8190735360},
        HfDense{R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
          "tie_word_embeddings": false, "vocab_size": 32064})",
                3821079552},
        HfDense{R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
          "num_hidden_layers": 44, "num_attention_heads": 64, "tie_word_embeddings": false,
          "torch_dtype": "float16", "vocab_size": 50432})",
                20554567680}}) {
    const std::string text = model_text_of_hf_config("config.json", is.json);
    const MoeModel model = parse_moe_model(text, "config.json");
    EXPECT_EQ(model.experts, 0) << text;
    const auto total = static_cast<double>(parameters_of(model).total());
    EXPECT_NEAR(total / is.parameters, 1, model.expert_matrices == 3 ? 1e-12 : 1.2e-4) << text;
  }
}

TEST(DenseModel, OfHuggingFaceNeedsTheWidthOfItsFfn) {
  try {
    model_text_of_hf_config("config.json", R"({"model_type": "llama", "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4})");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("the file lacks the key 'intermediate_size'"));
  }
}

}  // namespace
}  // namespace moesim
