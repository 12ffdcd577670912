// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/model/gpu_model.h"
#include "sim/model/moe_model.h"

namespace moesim {
namespace {

class ShippedModel : public testing::TestWithParam<std::string> {};

TEST_P(ShippedModel, ReadsAndStaysBelowItsPublishedTotal) {
  const MoeModel m = read_moe_model(data_file("models/moe", GetParam()));
  EXPECT_EQ(m.name, GetParam());
  EXPECT_FALSE(m.source.empty());
  EXPECT_LT(m.moe_layers.back(), m.layers);
  if (m.total_parameters > 0) {
    const auto routed = static_cast<double>(m.expert_parameters()) * m.experts *
                        static_cast<double>(m.moe_layers.size());
    EXPECT_LT(routed, m.total_parameters);
    EXPECT_GT(routed, 0.5 * m.total_parameters);
  }
}
INSTANTIATE_TEST_SUITE_P(All, ShippedModel, testing::ValuesIn(data_names("models/moe")),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(ModelFile, LayersRoutedByTokenIdsAreLayersOfTheModel) {
  const auto parsed = [](int hashed) {
    return parse_moe_model(
        "name: t\nsource: test\nhidden: 8\nlayers: 2\nexperts: 4\ntop_k: 1\n"
        "moe_layers: {first: 0, count: 2}\nexpert_ffn: 8\nexpert_matrices: 2\n"
        "activations: bf16\nweights: bf16\nhash_layers: " +
            std::to_string(hashed) + "\n",
        "t");
  };
  EXPECT_EQ(parsed(0).hash_layers, 0);
  EXPECT_EQ(parsed(2).hash_layers, 2);
  try {
    parsed(3);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("'hash_layers' is 3, but 'layers' is 2"));
  }
}

TEST(ShippedModels, AreAllThere) {
  EXPECT_THAT(data_names("models/moe"),
              testing::IsSupersetOf({"deepseek-v3",         "deepseek-v3-half",
                                     "deepseek-v2-lite",    "qwen3-30b-a3b",
                                     "qwen3-235b-a22b",     "mixtral-8x7b-e8k2",
                                     "mixtral-8x7b-e16k4",  "mixtral-8x22b-e8k2",
                                     "mixtral-8x22b-e16k4", "olmoe",
                                     "gpt-oss-20b",         "gpt-oss-120b",
                                     "llama-4-maverick",    "switch-c-2048",
                                     "hybridep-llama-tiny", "hybridep-mistral-small",
                                     "hybridep-gpt-medium", "hybridep-gpt-large",
                                     "kimi-k2.5",           "minimax-m2.5",
                                     "qwen3.5-397b-a17b"}));
  EXPECT_THAT(data_names("topologies"), testing::Not(testing::Contains("h100-nic.calib")));
  EXPECT_THAT(data_names("models/gpu"),
              testing::IsSupersetOf(
                  {"a6000", "a100-sxm-80gb", "a800", "h100-sxm", "h800", "h200", "b200"}));
}

TEST(MoeModel, ExpertSizesMatchThePapers) {
  // HierMoE (arXiv 2508.09591), section 1.7 of its reference: 4,718,592 and 11,010,048 parameters.
  EXPECT_EQ(read_moe_model(data_file("models/moe", "qwen3-30b-a3b")).expert_parameters(), 4718592);
  EXPECT_EQ(read_moe_model(data_file("models/moe", "deepseek-v3-half")).expert_parameters(),
            11010048);
}

TEST(MoeModel, ReportsEveryMistake) {
  try {
    parse_moe_model(
        "name: x\nsource: none\nhidden: 8\nlayers: 2\nmoe_layers: {first: 1, count: 2}\n"
        "experts: 4\ntop_k: 8\nexpert_ffn: 8\nexpert_matrices: 3\nactivations: bf17\n"
        "weights: bf16\n",
        "m.yaml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "m.yaml:5:13: error: 'moe_layers' ends at layer 2, but 'layers' is 2\n"
                 "  moe_layers: {first: 1, count: 2}\n"
                 "              ^\n"
                 "hint: layer numbers count from 0\n"
                 "m.yaml:7:8: error: 'top_k' is 8, more than the 4 experts\n"
                 "  top_k: 8\n"
                 "         ^\n"
                 "m.yaml:10:14: error: 'activations' cannot be 'bf17'\n"
                 "  activations: bf17\n"
                 "               ^\n"
                 "hint: did you mean 'bf16'?\n");
  }
}

const char* const toy_gpu =
    "name: toy\nsource: none\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\n"
    "peak: {bf16: 1 GFLOP/s}\nlaunch_overhead: 5 us\n";

TEST(GpuModel, RooflineTakesTheSlowerOfComputeAndMemory) {
  const GpuModel gpu = parse_gpu_model(toy_gpu, "g.yaml");
  // 2 x 10 x 100 x 100 flop = 200 us of compute; (1000 + 1000 + 10000) x 2 bytes = 24 us of memory.
  EXPECT_NEAR(gpu.time(GroupedGemm{{10}, 100, 100, DataType::bf16}).value, 205e-6, 1e-12);
  // One row: 20 us of compute, 20.4 us of memory.
  EXPECT_NEAR(gpu.time(GroupedGemm{{1}, 100, 100, DataType::bf16}).value, 25.4e-6, 1e-12);
  EXPECT_NEAR(gpu.time(MemoryBound{Bytes(600), Bytes(400)}).value, 6e-6, 1e-12);
}

TEST(GpuModel, EmptyKernelsAndGroupsCostNothing) {
  const GpuModel gpu = parse_gpu_model(toy_gpu, "g.yaml");
  EXPECT_EQ(gpu.time(GroupedGemm{{0, 0}, 100, 100, DataType::bf16}), Seconds(0));
  EXPECT_EQ(gpu.time(GroupedGemm{{10, 0}, 100, 100, DataType::bf16}),
            gpu.time(GroupedGemm{{10}, 100, 100, DataType::bf16}));
  EXPECT_EQ(gpu.time(MemoryBound{}), Seconds(0));
}

TEST(GpuModel, ReservedMemoryIsNotThereForTensors) {
  const std::string toy = toy_gpu;
  EXPECT_EQ(parse_gpu_model(toy, "g.yaml").memory, Bytes(1000000000));
  EXPECT_EQ(parse_gpu_model(toy + "reserved_memory: 300 MB\n", "g.yaml").memory, Bytes(700000000));
  try {
    parse_gpu_model(toy + "reserved_memory: 1 GB\n", "g.yaml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("g.yaml:7"));
    EXPECT_THAT(e.what(), testing::HasSubstr("reserved_memory leaves nothing for tensors"));
  }
}

TEST(GpuModel, AnUnknownPeakIsAnErrorThatNamesIt) {
  const GpuModel gpu = parse_gpu_model(toy_gpu, "g.yaml");
  try {
    gpu.time(GroupedGemm{{1}, 1, 1, DataType::fp8});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("GPU model 'toy' has no peak for fp8"));
  }
}

TEST(GpuModel, ShippedOnesRead) {
  for (const std::string& name : data_names("models/gpu")) {
    const GpuModel gpu = read_gpu_model(data_file("models/gpu", name));
    EXPECT_EQ(gpu.name, name);
    EXPECT_GT(gpu.time(GroupedGemm{{4096}, 4096, 4096, DataType::bf16}).value, 0);
  }
}

TEST(MoeModelReader, SharedExpertsAndTheirWidthGoTogether) {
  const auto mistakes = [](const std::string& shared) {
    try {
      parse_moe_model(
          "name: x\nsource: none\nhidden: 8\nlayers: 1\nmoe_layers: {first: 0, count: 1}\n"
          "experts: 4\ntop_k: 2\nexpert_ffn: 8\nexpert_matrices: 2\nactivations: bf16\n"
          "weights: bf16\n" +
              shared,
          "m.yaml");
    } catch (const Error& e) {
      return e.diagnostics().front().message;
    }
    return std::string();
  };
  EXPECT_EQ(mistakes("shared_experts: 1\nshared_ffn: 8\n"), "");
  EXPECT_EQ(mistakes("shared_experts: 1\n"), "'shared_experts' needs 'shared_ffn' next to it");
  EXPECT_EQ(mistakes("shared_ffn: 8\n"), "'shared_ffn' has no effect: 'shared_experts' is 0");
}

TEST(MoeModelReader, LayersOfAStrideEndWithinTheModel) {
  const auto mistakes = [](int layers) {
    try {
      parse_moe_model("name: x\nsource: none\nhidden: 8\nlayers: " + std::to_string(layers) +
                          "\nmoe_layers: {first: 1, count: 3, stride: 2}\nexperts: 4\ntop_k: 2\n"
                          "expert_ffn: 8\nexpert_matrices: 2\nactivations: bf16\nweights: bf16\n",
                      "m.yaml");
    } catch (const Error& e) {
      return e.diagnostics().front().message;
    }
    return std::string();
  };
  EXPECT_EQ(mistakes(6), "");
  EXPECT_EQ(mistakes(5), "'moe_layers' ends at layer 5, but 'layers' is 5");
}

}  // namespace
}  // namespace moesim
