// SPDX-License-Identifier: Apache-2.0
#include "sim/model/kernel_tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

const char* const measured = R"(name: m
source: a test
memory: 1 GB
memory_bandwidth: 1 GB/s
peak: {fp32: 1 GFLOP/s, bf16: 1 GFLOP/s}
launch_overhead: 1 us
gemm:
  - {op: fc1, n: 8, k: 4, type: fp32, points: [{groups: 1, m: 1, time: 2 us}, {groups: 1, m: 16, time: 8 us},
      {groups: 4, m: 1, time: 4 us}, {groups: 4, m: 16, time: 32 us}]}
  - {op: fc1-wgrad, n: 8, k: 4, type: fp32, points: [{groups: 1, m: 1, time: 100 us}]}
memory_bound:
  - {op: sort, points: [{bytes: 1 KiB, time: 5 us}, {bytes: 4 KiB, time: 10 us}]}
  - {points: [{bytes: 1 KiB, time: 1 us}]}
)";

GpuModel model() { return parse_gpu_model(measured, "m.gpu.yaml"); }

double us(const Kernel& kernel, std::string_view op) {
  return model().time(kernel, find_op_type(op).value_or(OpType{})).value * 1e6;
}

GroupedGemm gemm(std::vector<std::int64_t> m, std::int64_t n = 8, DataType type = DataType::fp32) {
  return {std::move(m), n, 4, type};
}

TEST(KernelTables, InterpolateInTheLogarithms) {
  EXPECT_NEAR(us(gemm({1}), "fc1"), 2, 1e-9);
  EXPECT_NEAR(us(gemm({4}), "fc1"), 4, 1e-9);        // half way between 1 and 16, 2 and 8 us
  EXPECT_NEAR(us(gemm({31}), "fc1"), 14, 1e-9);      // 15 more rows take as long as the last 15
  EXPECT_NEAR(us(gemm({16, 16}), "fc1"), 16, 1e-9);  // between 8 us of one and 32 us of four
  EXPECT_NEAR(us(gemm(std::vector<std::int64_t>(8, 16)), "fc1"), 64, 1e-9);
}

TEST(KernelTables, RiseBeyondTheLastPointAtMostInProportion) {
  const auto beyond = [](Seconds first, Seconds second) {
    TimeCurve curve;
    curve.add(10, first);
    curve.add(20, second);
    return curve.at(40).value;
  };
  EXPECT_DOUBLE_EQ(beyond(Seconds(5), Seconds(5)), 5);    // both are launches
  EXPECT_DOUBLE_EQ(beyond(Seconds(5), Seconds(6)), 8);    // a launch of 4, and 0.1 per unit
  EXPECT_DOUBLE_EQ(beyond(Seconds(5), Seconds(10)), 20);  // all throughput
  EXPECT_DOUBLE_EQ(beyond(Seconds(5), Seconds(4)), 4);    // noise
  EXPECT_DOUBLE_EQ(beyond(Seconds(1), Seconds(10)), 20);
  TimeCurve one;
  one.add(10, Seconds(3));
  EXPECT_DOUBLE_EQ(one.at(20).value, 6);
}

TEST(KernelTables, UnequalGroupsHaveTheMeanOfEqualOnes) {
  // Of four groups of 1: 4 us, of 16: 32 us.
  EXPECT_NEAR(us(gemm({1, 16, 16, 1}), "fc1"), (4.0 + 32 + 32 + 4) / 4, 1e-9);
  EXPECT_NEAR(us(gemm({0, 4, 0}), "fc1"), 4, 1e-9);  // empty groups are none
}

TEST(KernelTables, AreOfAnOpAndElseOfTheNearestShape) {
  EXPECT_NEAR(us(gemm({1}), "fc1-wgrad"), 100, 1e-9);
  EXPECT_NEAR(us(gemm({1}), "fc1-recompute"), 2, 1e-9);
  EXPECT_NEAR(us(gemm({1}, 16), "fc1"), 4, 1e-9);  // twice the shape measured
  EXPECT_NEAR(us(gemm({1}, 16), "gate"), 4, 1e-9);
}

TEST(KernelTables, LeaveOtherTypesToTheRoofline) {
  // 64 flops at 1 GFLOP/s, 88 bytes at 1 GB/s, and the launch
  EXPECT_NEAR(us(gemm({1}, 8, DataType::bf16), "fc1"), 1 + 0.088, 1e-9);
}

TEST(KernelTables, AreOfTheTypeWhateverComesFirst) {
  const GpuModel gpu = parse_gpu_model(
      "name: m\nsource: s\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\npeak: {fp32: 1 GFLOP/s}\n"
      "gemm:\n  - {n: 8, k: 4, type: bf16, points: [{groups: 1, m: 1, time: 2 us}]}\n"
      "  - {n: 8, k: 4, type: fp32, points: [{groups: 1, m: 1, time: 3 us}]}\n"
      "  - {n: 8, k: 4, type: fp8, points: [{groups: 1, m: 1, time: 4 us}]}\n",
      "m.yaml");
  const auto us_of = [&](DataType type) { return gpu.time(gemm({1}, 8, type)).value * 1e6; };
  EXPECT_NEAR(us_of(DataType::bf16), 2, 1e-9);
  EXPECT_NEAR(us_of(DataType::fp32), 3, 1e-9);
  EXPECT_NEAR(us_of(DataType::fp8), 4, 1e-9);
}

TEST(KernelTables, OfAnyOpAreNearerThanThoseOfAnother) {
  const GpuModel gpu = parse_gpu_model(
      "name: m\nsource: s\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\npeak: {fp32: 1 GFLOP/s}\n"
      "overlap: {communication: 1.5}\n"
      "gemm:\n  - {op: fc2, n: 8, k: 4, type: fp32, points: [{groups: 1, m: 1, time: 2 us}]}\n"
      "  - {n: 8, k: 4, type: fp32, points: [{groups: 1, m: 1, time: 3 us}]}\n",
      "m.yaml");
  EXPECT_NEAR(gpu.time(gemm({1}), {OpKind::fc1}).value, 3e-6, 1e-12);
  EXPECT_NEAR(gpu.time(gemm({1}), {OpKind::fc2}).value, 2e-6, 1e-12);
  EXPECT_EQ(gpu.overlap.compute, 1);
  EXPECT_EQ(gpu.overlap.communication, 1.5);
  EXPECT_EQ(parse_gpu_model("name: m\nsource: s\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\n"
                            "peak: {fp32: 1 GFLOP/s}\noverlap: {compute: 1.25}\n",
                            "m.yaml")
                .overlap.compute,
            1.25);
}

TEST(KernelTables, OfMemoryAreOfAnOpOrOfAny) {
  EXPECT_NEAR(us(MemoryBound{Bytes(1024), Bytes(1024)}, "sort"), 5 * std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(us(MemoryBound{Bytes(100), Bytes(0)}, "sort"), 5, 1e-9);  // below the first its time
  EXPECT_NEAR(us(MemoryBound{Bytes(2048), Bytes(2048)}, "permute"), 4, 1e-9);
  EXPECT_EQ(us(MemoryBound{}, "sort"), 0);
  EXPECT_NEAR(us(HostWork{500}, "sort"), 0.5, 1e-9);
}

TEST(KernelTables, KnowTheOpsThatTheyAreOf) {
  const std::string text =
      "name: m\nsource: s\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\npeak: {fp32: 1 GFLOP/s}\n"
      "memory_bound:\n  - {op: sotr, points: [{bytes: 1 KiB, time: 1 us}]}\n";
  try {
    parse_gpu_model(text, "m.yaml");
    FAIL() << "taken";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "m.yaml:7:10: error: no op is called 'sotr'\n"
                 "    - {op: sotr, points: [{bytes: 1 KiB, time: 1 us}]}\n"
                 "           ^\n"
                 "hint: did you mean 'sort'?\n");
  }
}

TEST(KernelTables, ReportMistakes) {
  const std::string start =
      "name: m\nsource: s\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\npeak: {fp32: 1 GFLOP/s}\n";
  EXPECT_THROW(parse_gpu_model(start + "gemm: [{n: 8, k: 4, type: fp32, points: []}]\n", "m.yaml"),
               Error);
  EXPECT_THROW(parse_gpu_model(start + "gemm: [{n: 8, k: 4, type: int3, points: [{groups: 1, m: 1, "
                                       "time: 1 us}]}]\n",
                               "m.yaml"),
               Error);
  EXPECT_THROW(
      parse_gpu_model(start + "memory_bound: [{points: [{bytes: 1 KiB, time: 0 us}]}]\n", "m.yaml"),
      Error);
  EXPECT_THROW(parse_gpu_model(start + "overlap: {compute: 0.5}\n", "m.yaml"), Error);
}

}  // namespace
}  // namespace moesim
