// SPDX-License-Identifier: Apache-2.0
// The shipped fits near rates that their tables' authors and others have published.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "sim/base/data_files.h"
#include "sim/model/blocks.h"
#include "sim/model/gpu_model.h"
#include "sim/model/moe_model.h"

namespace moesim {
namespace {

double tflops(const std::string& gpu, const Kernel& kernel, OpType op = {OpKind::fc1},
              TrainingTraffic traffic = {}) {
  GpuModel model = read_gpu_model(data_file("models/gpu", gpu));
  model.training_traffic = traffic;
  return flops_of(kernel).value / model.time(kernel, op).value * 1e-12;
}

GroupedGemm cube(std::int64_t side) { return {{side}, side, side, DataType::bf16}; }

void expect_within(double part, double value, double expected) {
  EXPECT_NEAR(value, expected, part * expected);
}

TEST(MeasuredGpus, MultiplyAsFastAsTheirTablesSay) {
  expect_within(0.1, tflops("a100-measured", cube(4096)), 255);
  expect_within(0.1, tflops("a100-measured", cube(8192)), 294);
  expect_within(0.1, tflops("b200-measured", cube(4096)), 1523);
  expect_within(0.1, tflops("b200-measured", cube(8192)), 1687);
}

/// Calls of ai-dynamo/aiconfigurator 095f58a; those of fp4 include their cast, of bf16 two with
/// 7,168 and 8,192.
TEST(MeasuredGpus, MultiplyInFp4AsTheirTablesSay) {
  const GroupedGemm fp4{{8192}, 8192, 8192, DataType::fp4};
  expect_within(0.1, tflops("gb300-measured", fp4), 5208);
  expect_within(0.1, tflops("b300-measured", fp4), 4781);
  expect_within(0.1, tflops("gb300-measured", cube(8192)), (2113 + 1738) / 2.0);
  for (const char* gpu : {"b200", "b300", "gb200", "gb300"}) {
    for (const char* kernels : {"measured", "training"}) {
      const std::string name = fmt::format("{}-{}", gpu, kernels);
      EXPECT_GT(tflops(name, fp4), tflops(name, GroupedGemm{{8192}, 8192, 8192, DataType::fp8}));
    }
  }
  EXPECT_THROW(tflops("h100-measured", fp4), Error);
}

TEST(MeasuredGpus, MultiplyGroupsInFp8AsDeepGemmPublishes) {
  const auto groups = [](int count, std::int64_t m, std::int64_t n, std::int64_t k) {
    return GroupedGemm{std::vector<std::int64_t>(static_cast<std::size_t>(count), m), n, k,
                       DataType::fp8};
  };
  expect_within(0.1, tflops("h800-measured", groups(4, 8192, 4096, 7168)), 1346);
  expect_within(0.1, tflops("h800-measured", groups(4, 8192, 7168, 2048)), 1214);
  expect_within(0.1, tflops("h800-measured", groups(1, 4096, 4096, 7168)), 1410);
}

TEST(MeasuredGpus, SumGradientsByWeightsInFp8AsDeepGemmPublishes) {
  // deepseek-ai/DeepGEMM pull request 95: M x N over K rows, fp32 results.
  const OpType wgrad{OpKind::fc1, Role::wgrad, Pass::backward};
  for (const auto& [rows, n, k, published] : {std::tuple{4096, 7168, 2112, 920},
                                              {4096, 24576, 1536, 986},
                                              {4096, 16384, 7168, 994},
                                              {8192, 7168, 2112, 1052},
                                              {8192, 24576, 1536, 1092}}) {
    const GroupedGemm gemm{{rows}, n, k, DataType::fp8};
    expect_within(0.1, tflops("h800-measured", gemm, wgrad, {8, 0, 0}), published);
  }
}

/// state-spaces/mamba issue 904: Mamba-2 1.3B trains at 360.4 TFLOP/s on one GB200, by 6 flop per
/// weight and token, in four sequences of 4,096. Without its head and update: 26 ms.
TEST(MeasuredGpus, TrainMamba2AsPublished) {
  const MoeModel model = parse_moe_model(
      "name: x\nsource: none\nhidden: 2048\nlayers: 2\npattern: ME\nexperts: 2\ntop_k: 1\n"
      "expert_ffn: 16\nexpert_matrices: 2\nactivations: bf16\nweights: bf16\nvocabulary: 50288\n"
      "mamba: {heads: 64, head_dim: 64, groups: 1, state: 128, conv: 4}\n",
      "m.yaml");
  GpuModel gpu = read_gpu_model(data_file("models/gpu", "gb200-training"));
  gpu.training = {{DataType::bf16, 0.82}};  // as models/software/megatron-core.yaml
  const BlockShard shard{4 * 4096, 2048};
  Seconds layer{0};
  const auto add = [&](const std::vector<BlockKernel>& kernels, Role role, Pass pass) {
    for (const BlockKernel& k : kernels) layer += gpu.time(k.kernel, {k.kind, role, pass});
  };
  add(forward_kernels(model, 0, BlockKind::mamba, shard), Role::plain, Pass::forward);
  add(dgrad_kernels(model, 0, BlockKind::mamba, shard), Role::dgrad, Pass::backward);
  add(wgrad_kernels(model, 0, BlockKind::mamba, shard), Role::wgrad, Pass::backward);
  expect_within(0.05, 48 * layer.value, 6 * 1.344e9 * 4 * 4096 / 360.4e12 - 0.026);
}

TEST(MeasuredGpus, TrainAsFastAsSimuMaxTimed) {
  // MooreThreads/SimuMax 4dcaae51, b200_bf16_ceperm.json: parts of 2,250 TFLOP/s.
  const OpType wgrad{OpKind::fc1, Role::wgrad, Pass::backward};
  expect_within(0.1, tflops("b200-training", GroupedGemm{{4096}, 8192, 10240}), 0.498 * 2250);
  const auto experts = [](int count, std::int64_t rows) {
    return GroupedGemm{std::vector<std::int64_t>(static_cast<std::size_t>(count), rows), 3072,
                       5120};
  };
  expect_within(0.1, tflops("b200-training", experts(40, 9832)), 0.475 * 2250);
  for (const auto& [count, rows, part] :
       {std::tuple{160, 154, 0.094}, {80, 308, 0.162}, {40, 616, 0.258}, {20, 1232, 0.328}}) {
    expect_within(0.2, tflops("b200-training", experts(count, rows), wgrad, {8, 0, 0}),
                  part * 2250);
  }
  // Their flop of attention have no causal mask.
  const auto mla = [](Pass pass) {
    return FusedAttention{4096, 2048, {64, 64, 192, 128, DataType::bf16, pass}};
  };
  expect_within(0.15, tflops("b200-training", mla(Pass::forward)), 0.885 * 2250 / 2);
  expect_within(0.15, tflops("b200-training", mla(Pass::backward)), 0.609 * 2250 / 2 * 832 / 800);
}

TEST(MeasuredGpus, AttendAsFastAsFlashAttention) {
  // Whole sequences of 8,192 tokens, 128 wide heads: 575 TFLOP/s is the table's median on H100.
  const auto causal = [](std::int64_t length, Pass pass) {
    return FusedAttention{8 * length, length / 2, {32, 32, 128, 128, DataType::bf16, pass}};
  };
  expect_within(0.1, tflops("h100-measured", causal(8192, Pass::forward)), 575);
  // At most 63 % of A100's 312 TFLOP/s backward (arXiv 2307.08691).
  EXPECT_LT(tflops("a100-measured", causal(16384, Pass::backward)), 0.63 * 312);
}

double microseconds(const std::string& gpu, const FusedAttention& attention) {
  const GpuModel model = read_gpu_model(data_file("models/gpu", gpu));
  return model.time(attention, {OpKind::attention_scores}).value * 1e6;
}

/// Calls of ai-dynamo/aiconfigurator 095f58a: 32 heads on 4 of keys, 128 wide, a cache in bf16.
TEST(MeasuredGpus, DecodeAsTheirTablesSay) {
  const AttentionHeads heads{32, 4, 128, 128};
  const auto batch_of = [&](std::int64_t batch, std::int64_t keys) {
    return FusedAttention{batch, keys, heads, batch * keys};
  };
  expect_within(0.15, microseconds("h100-measured", batch_of(16, 4096)), 58.9);
  expect_within(0.15, microseconds("h100-measured", batch_of(128, 4096)), 356.5);
  expect_within(0.15, microseconds("h100-measured", batch_of(1, 128)), 11.7);
  // As much again for twice the keys, if there are many.
  const double once = microseconds("h200-measured", batch_of(64, 32768));
  expect_within(0.02, microseconds("h200-measured", batch_of(64, 65536)), 2 * once);
}

/// The same source: how much longer the module takes for 16,384 tokens of context than for 4,096.
TEST(MeasuredGpus, DecodeLatentKeysAsTheirTablesSay) {
  const auto more = [](const std::string& gpu, std::int64_t batch, DataType cache) {
    AttentionHeads latent{128, 1, 576, 512, cache};
    latent.latent = true;
    const auto of = [&](std::int64_t keys) {
      return microseconds(gpu, FusedAttention{batch, keys, latent, batch * keys});
    };
    return of(16385) - of(4097);
  };
  expect_within(0.1, more("h100-measured", 128, DataType::bf16), 625);
  expect_within(0.1, more("h100-measured", 128, DataType::fp8), 577);
  expect_within(0.2, more("b200-measured", 128, DataType::fp8), 155);
}

}  // namespace
}  // namespace moesim
