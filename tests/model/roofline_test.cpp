// SPDX-License-Identifier: Apache-2.0
#include "sim/model/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/data_files.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

// 1 flop and 1 byte take 1 us at most: times are counts.
GpuModel fitted_gpu(const std::string& kernels, const std::string& more = "") {
  return parse_gpu_model(
      "name: g\nsource: a test\nmemory: 1 GB\nmemory_bandwidth: 1 MB/s\n"
      "peak: {bf16: 1 MFLOP/s, fp8: 2 MFLOP/s}\nlaunch_overhead: 100 us\n" +
          more + "kernels:\n" + kernels,
      "g.yaml");
}

double us_on(const GpuModel& gpu, const Kernel& kernel, OpType op = {OpKind::fc1}) {
  return gpu.time(kernel, op).value * 1e6;
}

TEST(Roofline, StandsOnWhatItsFileStates) {
  const std::string
      gemm = "  gemm:\n    bf16: {efficiency: 0.5}\n",
      attention = "  attention:\n    bf16: {efficiency: 0.5}\n",
      table = "gemm: [{n: 8, k: 4, type: bf16, points: [{groups: 1, m: 1, time: 2 us}]}]\n";
  EXPECT_EQ(fitted_gpu(attention).grounds(), "data sheet");
  EXPECT_EQ(fitted_gpu(gemm).grounds(), "partly fitted");
  EXPECT_EQ(fitted_gpu(gemm + attention).grounds(), "fitted");
  const std::string only_fp8 = "  gemm:\n    fp8: {efficiency: 0.5}\n";
  EXPECT_EQ(fitted_gpu(only_fp8 + attention).grounds(), "partly fitted");
  EXPECT_EQ(fitted_gpu(attention, table).grounds(), "tables");
  EXPECT_FALSE(fitted_gpu(attention).has_measured_kernels());
  EXPECT_FALSE(fitted_gpu(gemm).has_measured_kernels());
  EXPECT_TRUE(fitted_gpu(gemm + attention).has_measured_kernels());
  EXPECT_TRUE(fitted_gpu(attention, table).has_measured_kernels());
}

TEST(Roofline, RoundsItsCorner) {
  // 2 x 4 x 8 x 8 = 512 flop at half the peak, (32 + 32 + 64) x 2 bytes at a quarter: 1,024 us each
  const GroupedGemm gemm{{4}, 8, 8, DataType::bf16};
  const auto with = [&](const std::string& sharpness) {
    return us_on(fitted_gpu("  gemm:\n    bf16: {efficiency: 0.5, memory: 0.25, launch: 7 us" +
                            sharpness + "}\n"),
                 gemm);
  };
  EXPECT_NEAR(with(""), 7 + 1024, 1e-6);
  EXPECT_NEAR(with(", sharpness: 2"), 7 + 1024 * std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(with(", sharpness: 1"), 7 + 2048, 1e-6);
}

TEST(Roofline, ShortSumsReachHalfOfTheEfficiencyAtTheirHalfLength) {
  const GpuModel gpu = fitted_gpu("  gemm:\n    bf16: {efficiency: 1, half_sum: 8}\n");
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64}, 64, 8, DataType::bf16}), 2 * 2 * 64 * 64 * 8, 1e-6);
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64}, 64, 24, DataType::bf16}), 2 * 64 * 64 * (24 + 8), 1e-6);
  // The gradient by the weights sums over the rows.
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64}, 64, 24, DataType::bf16},
                    {OpKind::fc1, Role::wgrad, Pass::backward}),
              2 * (64 + 8) * 64 * 24, 1e-6);
}

TEST(Roofline, GroupsComputeMoreRowsThanTheyHave) {
  const GpuModel gpu = fitted_gpu("  gemm:\n    bf16: {efficiency: 1, group_rows: 10}\n");
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64, 0, 6}, 64, 64, DataType::bf16}),
              2 * (64 + 6 + 20) * 64 * 64, 1e-6);
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64, 0}, 64, 64, DataType::bf16}), 2 * 64 * 64 * 64, 1e-6);
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{60, 4}, 64, 64, DataType::bf16},
                    {OpKind::fc1, Role::wgrad, Pass::backward}),
              2 * 64 * 64 * 64, 1e-6);
}

TEST(Roofline, GroupsMayHaveOneOfTheirOwn) {
  const GpuModel gpu = fitted_gpu(
      "  gemm:\n    bf16: {efficiency: 1}\n  grouped_gemm:\n    bf16: {efficiency: 0.5}\n");
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64, 64}, 64, 64, DataType::bf16}), 2.0 * 2 * 128 * 64 * 64,
              1e-6);
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{128}, 64, 64, DataType::bf16}), 2.0 * 128 * 64 * 64, 1e-6);
}

TEST(Roofline, WeightsOfMxfp4AreMultipliedInBf16UnlessTheyHaveTheirOwn) {
  const GroupedGemm groups{{64, 64}, 64, 64, DataType::mxfp4};
  const GroupedGemm one{{128}, 64, 64, DataType::mxfp4};
  const double flop = 2.0 * 128 * 64 * 64;
  const GpuModel plain = fitted_gpu(
      "  gemm:\n    bf16: {efficiency: 0.8}\n  grouped_gemm:\n    bf16: {efficiency: 0.5}\n");
  EXPECT_NEAR(us_on(plain, groups), flop / 0.5, 1e-6);
  EXPECT_NEAR(us_on(plain, one), flop / 0.8, 1e-6);
  const GpuModel own = fitted_gpu(
      "  gemm:\n    bf16: {efficiency: 0.8}\n  grouped_gemm:\n    bf16: {efficiency: 0.5}\n"
      "    mxfp4: {efficiency: 0.25}\n");
  EXPECT_NEAR(us_on(own, groups), flop / 0.25, 1e-6);
  EXPECT_NEAR(us_on(own, one), flop / 0.25, 1e-6) << "the same kernel, of one expert";
}

TEST(Roofline, OfFp16AreThoseOfBf16UnlessItHasItsOwn) {
  const GroupedGemm product{{128}, 64, 64, DataType::fp16};
  const auto efficiency = [&](const std::string& fits) {
    return fitted_gpu("  gemm:\n    bf16: {efficiency: 0.8}\n" + fits)
        .fitted.find(product)
        ->efficiency;
  };
  EXPECT_EQ(efficiency(""), 0.8);
  EXPECT_EQ(efficiency("    fp16: {efficiency: 0.5}\n"), 0.5);
}

TEST(Roofline, WavesShareTheTimeOfTheirKernel) {
  const GpuModel gpu = fitted_gpu(
      "  gemm:\n    bf16: {efficiency: 0.5, memory: 0.5, launch: 7 us, group_rows: 99}\n");
  // Groups of 3 and 9 rows fill 4 and 12: 3 + 1 tiles of 4.
  Wave wave{{3, 9}, 4, 4, 1, 4, DataType::bf16, true};
  const GroupedGemm first{{3, 0}, 64, 128, DataType::bf16, wave};
  const double compute = 2 * 16 * 64 * 128 / 0.5;
  const double memory = 2 * (12 * (64 + 128) + 2 * 64 * 128) / 0.5;
  ASSERT_GT(compute, memory);
  EXPECT_NEAR(us_on(gpu, first), 7 + compute / 4, 1e-6);
  wave.tiles = 3;
  wave.starts = false;
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{0, 9}, 64, 128, DataType::bf16, wave}), compute * 3 / 4,
              1e-6);
  // Weights of fp4 take 9 bits of 16, and bind a kernel of few rows.
  wave = {{1, 1}, 1, 1, 2, 2, DataType::fp4, false};
  const double of_weights = 2 * (64.0 * 128) * 9 / 16 + 2 * 2 * (64 + 128);
  const GpuModel slow_memory = fitted_gpu("  gemm:\n    bf16: {efficiency: 1, memory: 0.01}\n");
  EXPECT_NEAR(us_on(slow_memory, GroupedGemm{{1, 1}, 64, 128, DataType::bf16, wave}),
              of_weights / 0.01, 1e-6);
  // Sums over rows fill nothing.
  wave = {{3, 9}, 4, 4, 4, 4, DataType::bf16, false};
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{3, 9}, 64, 128, DataType::bf16, wave},
                    {OpKind::fc1, Role::wgrad, Pass::backward}),
              std::max(2.0 * 12 * 64 * 128, memory * 0.5) / 0.5, 1e-6);
}

/// MegaMoE's products are as wide as the rows of a tile, to 16 (DeepGEMM 891d57b,
/// scheduler/mega_moe.cuh, get_valid_m).
TEST(Roofline, TilesThatAreNotFilledUpComputeTheirRowsAndSomeMore) {
  const GpuModel gpu = fitted_gpu("  tiles:\n    bf16: {efficiency: 0.5, group_rows: 10}\n");
  // 3 rows compute 4 in one tile, 17 compute 20 in three: 24 and 4 x 10 more.
  const Wave wave{{3, 17}, 8, 4, 1, 4, DataType::bf16, false};
  const GroupedGemm gemm{{3, 0}, 640, 1280, DataType::bf16, wave};
  EXPECT_NEAR(us_on(gpu, gemm), 2.0 * (24 + 40) * 640 * 1280 / 0.5 / 4, 1e-6);
  GroupedGemm full = gemm;
  full.wave->fill = 8;  // 8 and 24 rows
  EXPECT_NEAR(us_on(gpu, full), 2.0 * 32 * 640 * 1280 / 0.5 / 4, 1e-6);
}

TEST(Roofline, TilesMayHaveOneOfTheirOwn) {
  const GpuModel gpu =
      fitted_gpu("  gemm:\n    bf16: {efficiency: 1}\n  tiles:\n    bf16: {efficiency: 0.25}\n");
  const GroupedGemm gemm{{64}, 64, 64, DataType::bf16};
  GroupedGemm wave = gemm;
  wave.wave = Wave{{64}, 16, 16, 4, 4, DataType::bf16, false};
  EXPECT_NEAR(us_on(gpu, wave) / us_on(gpu, gemm), 4, 1e-9);
}

TEST(Roofline, WhatGoesOnIsNotLaunched) {
  const GpuModel gpu = fitted_gpu("  gemm:\n    bf16: {efficiency: 1}\n");
  const MemoryBound rows{Bytes(60), Bytes(40)}, inside{Bytes(60), Bytes(40), true};
  EXPECT_NEAR(us_on(gpu, rows) - us_on(gpu, inside), 100, 1e-6);
  EXPECT_NEAR(us_on(gpu, inside), 100, 1e-6);  // a byte takes 1 us
}

TEST(Roofline, AttentionLosesWithFewKeysAndNarrowHeads) {
  const GpuModel gpu = fitted_gpu(
      "  attention:\n    bf16: {efficiency: 0.5, half_keys: 100, half_width: 48, backward: 0.8}\n");
  const FusedAttention forward{1000, 300, {8, 2, 64, 32, DataType::bf16}};
  const double flop = 2.0 * 1000 * 300 * 8 * 96;
  EXPECT_NEAR(us_on(gpu, forward), flop * (400.0 / 300) * 2 / 0.5, 1e-3);
  FusedAttention backward = forward;
  backward.shape.pass = Pass::backward;
  EXPECT_NEAR(us_on(gpu, backward), flop / 96 * (3 * 64 + 2 * 32) * (400.0 / 300) * 2 / 0.5 / 0.8,
              1e-3);
}

TEST(Roofline, AttentionMayBeSlowerWithUnevenWidths) {
  const GpuModel gpu = fitted_gpu("  attention:\n    bf16: {efficiency: 1, uneven: 0.8}\n");
  const auto with = [&](int values) {
    return us_on(gpu, FusedAttention{1000, 300, {8, 2, 64, values, DataType::bf16}});
  };
  EXPECT_NEAR(with(64), 2.0 * 1000 * 300 * 8 * 128, 1e-3);
  EXPECT_NEAR(with(32), 2.0 * 1000 * 300 * 8 * 96 / 0.8, 1e-3);
}

TEST(Roofline, OtherTypesAndKernelsTakeTheModelsOwn) {
  const GpuModel gpu = fitted_gpu("  gemm:\n    bf16: {efficiency: 0.5}\n");
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64}, 64, 64, DataType::fp8}), 100 + 64 * 64 * 64, 1e-6);
  EXPECT_NEAR(us_on(gpu, MemoryBound{Bytes(10), Bytes(5)}), 115, 1e-6);
}

TEST(Roofline, TrainingMaySlowTheKernelsOfAType) {
  const GpuModel gpu =
      fitted_gpu("  gemm:\n    bf16: {efficiency: 1}\n", "efficiency: {training: {bf16: 0.5}}\n");
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64}, 64, 64, DataType::bf16}), 2 * 2 * 64 * 64 * 64, 1e-6);
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{64}, 64, 64, DataType::fp8}), 100 + 64 * 64 * 64, 1e-6);
  // 4 flop and 10 bytes: the bandwidth is kept in part, too; launches are as long.
  EXPECT_NEAR(us_on(gpu, GroupedGemm{{1}, 1, 2, DataType::bf16}), 2 * 10, 1e-6);
  EXPECT_NEAR(us_on(gpu, MemoryBound{Bytes(10), Bytes(5)}), 100 + 2 * 15, 1e-6);
}

TEST(Roofline, GradientsByWeightsMayBeSlower) {
  const GpuModel gpu = fitted_gpu("  gemm:\n    bf16: {efficiency: 1, half_sum: 8, wgrad: 0.5}\n");
  const GroupedGemm gemm{{64}, 64, 64, DataType::bf16};
  EXPECT_NEAR(us_on(gpu, gemm, {OpKind::fc1, Role::wgrad, Pass::backward}),
              2 * 2 * (64 + 8) * 64 * 64, 1e-6);
  EXPECT_NEAR(us_on(gpu, gemm), 2 * 64 * 64 * (64 + 8), 1e-6);
}

TEST(Roofline, SaysWhatBindsAKernel) {
  const GpuModel gpu = fitted_gpu("  gemm:\n    bf16: {efficiency: 1, launch: 500 us}\n");
  const auto bound = [&](std::int64_t m, std::int64_t k) {
    return gpu.bound(GroupedGemm{{m}, 64, k, DataType::bf16});
  };
  EXPECT_EQ(bound(64, 64), KernelBound::compute);
  EXPECT_EQ(bound(1, 2), KernelBound::launch);  // 256 flop, 388 bytes: 388 us
  EXPECT_EQ(bound(1, 4), KernelBound::memory);  // 512 flop, 648 bytes
  EXPECT_EQ(gpu.bound(MemoryBound{Bytes(101), Bytes(0)}), KernelBound::memory);
}

TEST(Roofline, AnEfficiencyIsDue) {
  try {
    fitted_gpu("  gemm:\n    bf16: {memory: 0.5}\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("efficiency"));
  }
}

TEST(FittedKernels, OfAnEngineReplaceThoseOfItsExperts) {
  const GpuModel gpu = parse_gpu_model(
      "name: g\nsource: us\nmemory: 1 GB\nmemory_bandwidth: 1 TB/s\npeak: {bf16: 1 TFLOP/s}\n"
      "kernels:\n  grouped_gemm:\n    bf16: {efficiency: 0.5}\n    fp8: {efficiency: 0.4}\n"
      "  engine_experts:\n    one:\n      fp8: {efficiency: 0.3}\n",
      "g.yaml");
  EXPECT_EQ(gpu.fitted.of_engine("one").grouped_gemm.at(DataType::fp8).efficiency, 0.3);
  EXPECT_EQ(gpu.fitted.of_engine("one").grouped_gemm.at(DataType::bf16).efficiency, 0.5);
  EXPECT_EQ(gpu.fitted.of_engine("two").grouped_gemm.at(DataType::fp8).efficiency, 0.4);
}

}  // namespace
}  // namespace moesim
