// SPDX-License-Identifier: Apache-2.0
#include "sim/model/training_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

constexpr OpType forward_fc1{OpKind::fc1}, dgrad_fc1{OpKind::fc1, Role::dgrad, Pass::backward},
    wgrad_fc1{OpKind::fc1, Role::wgrad, Pass::backward};

// 1 byte takes 1 us, a launch 1000 us, products nothing.
GpuModel slow_memory(const TrainingTraffic& traffic) {
  GpuModel gpu = parse_gpu_model(
      "name: g\nsource: a test\nmemory: 1 GB\nmemory_bandwidth: 1 MB/s\n"
      "peak: {bf16: 1e6 TFLOP/s, fp8: 1e6 TFLOP/s}\nlaunch_overhead: 1000 us\n",
      "g.yaml");
  gpu.training_traffic = traffic;
  return gpu;
}

double us_of(const GpuModel& gpu, const Kernel& kernel, OpType op) {
  return gpu.time(kernel, op).value * 1e6;
}

TEST(TrainingTraffic, WeightGradientsAccumulateInFp32) {
  const GpuModel plain = slow_memory({}), training = slow_memory({8, 0, 0});
  const GroupedGemm gemm{{4, 0, 6}, 5, 7, DataType::bf16};
  // Two groups have rows: 2 x 35 weights, written in 2 bytes, or read and written in 4 each.
  EXPECT_NEAR(us_of(plain, gemm, wgrad_fc1), 1000 + 2 * (10 * (5 + 7) + 70), 1e-6);
  EXPECT_NEAR(us_of(training, gemm, wgrad_fc1), 1000 + 2 * 10 * (5 + 7) + 8 * 70, 1e-6);
  for (const OpType op : {forward_fc1, dgrad_fc1}) {
    EXPECT_EQ(us_of(training, gemm, op), us_of(plain, gemm, op));
  }
  // The scores of a coarse attention have no weights, and what only moves memory no gradient.
  const OpType scores{OpKind::attention_scores, Role::wgrad, Pass::backward};
  EXPECT_EQ(us_of(training, gemm, scores), us_of(plain, gemm, scores));
  EXPECT_NEAR(us_of(training, MemoryBound{Bytes(3), Bytes(4)}, wgrad_fc1), 1007, 1e-6);
}

TEST(TrainingTraffic, EightBitProductsQuantizeTheirRowsBefore) {
  const GpuModel plain = slow_memory({}), training = slow_memory({1, 6, 2});
  const GroupedGemm gemm{{4, 0, 6}, 5, 7, DataType::fp8};
  for (const OpType op : {forward_fc1, dgrad_fc1}) {
    // 10 rows of 7, and two kernels for each of the two groups.
    EXPECT_NEAR(us_of(training, gemm, op), us_of(plain, gemm, op) + 6 * 70 + 4 * 1000, 1e-6);
  }
  EXPECT_EQ(us_of(training, gemm, wgrad_fc1), us_of(plain, gemm, wgrad_fc1));
  GroupedGemm narrow = gemm, wide = gemm;
  narrow.type = DataType::fp4;
  EXPECT_GT(training.training_traffic.of_cast(narrow, forward_fc1).bytes, Bytes(0));
  wide.type = DataType::bf16;
  EXPECT_EQ(us_of(training, wide, forward_fc1), us_of(plain, wide, forward_fc1));
}

TEST(TrainingTraffic, ScalesAreLaidOutOnceForAllGroupsOfEveryProduct) {
  const GpuModel casts = slow_memory({1, 6, 1}), both = slow_memory({1, 6, 1, 2});
  const GroupedGemm gemm{{4, 0, 6}, 5, 7, DataType::fp8};
  for (const OpType op : {forward_fc1, dgrad_fc1, wgrad_fc1}) {
    EXPECT_NEAR(us_of(both, gemm, op), us_of(casts, gemm, op) + 2 * 1000, 1e-6);
  }
}

TEST(TrainingTraffic, FusedExpertsQuantizeWhatTheOtherProductReads) {
  TrainingTraffic fused{1, 6, 2, 3};
  fused.fused_experts = true;
  const GroupedGemm gemm{{4, 0, 6}, 5, 7, DataType::fp8};
  const auto more = [&](const char* type) {
    const OpType op = *find_op_type(type);
    return us_of(slow_memory(fused), gemm, op) - us_of(slow_memory({1}), gemm, op);
  };
  // One call quantizes the rows of all groups that come from outside.
  EXPECT_NEAR(more("fc1"), 6 * 70 + 2 * 1000, 1e-6);
  EXPECT_NEAR(more("fc2-dgrad"), 6 * 70 + 2 * 1000, 1e-6);
  // The results of the first product are written by it, and backward its results are read again.
  EXPECT_NEAR(more("fc2"), (6 - 2) * 70, 1e-6);
  EXPECT_NEAR(more("fc1-dgrad"), 6 * 70, 1e-6);
  for (const char* type : {"fc1-wgrad", "fc2-wgrad"}) EXPECT_EQ(more(type), 0) << type;
  EXPECT_NEAR(more("shared-fc2"), 6 * 70 + (2 * 2 + 3) * 1000, 1e-6);
}

TEST(TrainingTraffic, QuantizedScoresOfAttentionQuantizeTheirOperands) {
  TrainingTraffic traffic{1, 6, 2};
  traffic.of_software = true;
  AttentionHeads heads{4, 2, 3, 5, DataType::fp8, Pass::forward};
  const OpType scores{OpKind::attention_scores};
  const auto cast = [&] { return traffic.of_cast(FusedAttention{10, 10, heads}, scores); };
  EXPECT_EQ(cast().bytes, Bytes(6 * 10 * (4 * 3 + 2 * (3 + 5))));  // queries; keys and values
  EXPECT_EQ(cast().kernels, 2);
  heads.pass = Pass::backward;
  EXPECT_EQ(cast().bytes, Bytes(6 * 10 * 4 * 5));  // the result's gradient
  heads.type = DataType::bf16;
  EXPECT_EQ(cast().bytes, Bytes(0));
}

TEST(TrainingTraffic, AGpuWithoutTheirKernelsRefusesQuantizedScores) {
  GpuModel gpu = slow_memory({1, 6, 2});
  gpu.training_traffic.of_software = true;
  const OpType scores{OpKind::attention_scores};
  const FusedAttention attention{10, 10, {4, 2, 3, 5, DataType::fp8, Pass::forward}};
  EXPECT_GT(us_of(gpu, attention, scores), 0) << "as all its kernels: by its data sheet";
  gpu.fitted.attention[DataType::bf16] = {};
  EXPECT_THAT([&] { gpu.time(attention, scores); },
              testing::Throws<Error>(testing::Property(
                  &Error::what, testing::HasSubstr("no kernels of attention in fp8"))));
}

TEST(TrainingTraffic, EveryKernelOfAnOpTakesItsLaunch) {
  const GpuModel one = slow_memory({}), each = slow_memory({0, 0, 0, 0, true});
  const MemoryBound rows{Bytes(30), Bytes(40)};
  const auto more = [&](const Kernel& kernel, const char* type) {
    const OpType op = *find_op_type(type);
    return us_of(each, kernel, op) - us_of(one, kernel, op);
  };
  EXPECT_NEAR(more(rows, "permute"), 13 * 1000, 1e-6);  // of 14 kernels
  EXPECT_NEAR(more(rows, "permute-grad"), 0, 1e-6);
  EXPECT_NEAR(more(rows, "norm-dgrad"), 1000, 1e-6);
  // Products of experts are one kernel on the GPU, whose launches hide behind each other.
  const GroupedGemm gemm{{4, 6}, 5, 7, DataType::bf16};
  for (const char* type : {"fc1", "fc1-dgrad", "fc1-wgrad"}) EXPECT_EQ(more(gemm, type), 0);
  EXPECT_NEAR(more(gemm, "gate"), 7 * 1000, 1e-6);
  EXPECT_EQ(more(gemm, "gate-wgrad"), 0);
  EXPECT_EQ(more(HostWork{5}, "planning"), 0);
}

TEST(GpuModel, KernelsThatMoveRowsAndTheLossHaveRatesOfTheirOwn) {
  const auto gpu = [](const std::string& efficiency) {
    return parse_gpu_model(
        "name: g\nsource: a test\nmemory: 1 GB\nmemory_bandwidth: 1 MB/s\npeak: {bf16: 1 TFLOP/s}\n"
        "efficiency: " +
            efficiency + "\n",
        "g.yaml");
  };
  const GpuModel one = gpu("{memory: 0.8}"), own = gpu("{memory: 0.8, rows: 0.5, loss: 0.25}");
  const MemoryBound moved{Bytes(30), Bytes(10)};
  for (const char* type : {"permute", "unpermute-grad", "sort", "reduce-recompute"}) {
    EXPECT_NEAR(us_of(one, moved, *find_op_type(type)), 50, 1e-9) << type;
    EXPECT_NEAR(us_of(own, moved, *find_op_type(type)), 80, 1e-9) << type;
  }
  EXPECT_NEAR(us_of(own, moved, *find_op_type("loss")), 160, 1e-9);
  EXPECT_NEAR(us_of(own, moved, *find_op_type("norm")), 50, 1e-9);
}

}  // namespace
}  // namespace moesim
