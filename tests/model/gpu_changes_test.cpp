// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gpu_changes.h"

#include <gtest/gtest.h>

#include "sim/base/data_files.h"

namespace moesim {
namespace {

const GroupedGemm large_gemm{{4096}, 4096, 4096, DataType::bf16};
const MemoryBound large_copy{Bytes(1'000'000'000), Bytes(1'000'000'000)};
const OpType fc1{OpKind::fc1};

GpuModel shipped_gpu(const std::string& name) {
  return read_gpu_model(data_file("models/gpu", name));
}

TEST(GpuChanges, AreThoseOfTheFile) {
  const GpuModel by_file = read_gpu_model(
      data_file("models/gpu", "h100-sxm"),
      {parse_override("peak.bf16=1978.8 TFLOP/s"), parse_override("memory_bandwidth=1.675 TB/s"),
       parse_override("launch_overhead=12 us")});
  const GpuModel by_factor =
      changed(shipped_gpu("h100-sxm"), {.flops = 2, .memory_bandwidth = 0.5, .launch = 4});
  for (const Kernel& kernel :
       {Kernel(large_gemm), Kernel(large_copy), Kernel(GroupedGemm{{1}, 64, 64, DataType::bf16})}) {
    EXPECT_NEAR(by_factor.time(kernel, fc1) / by_file.time(kernel, fc1), 1, 1e-12);
    EXPECT_EQ(by_factor.bound(kernel, fc1), by_file.bound(kernel, fc1));
  }
}

TEST(GpuChanges, LetMeasuredTimesChangeAsTheirRooflines) {
  const GpuModel gpu = shipped_gpu("h100-measured");
  const GpuModel same = changed(gpu, {});
  const GpuModel faster = changed(gpu, {.flops = 2, .memory_bandwidth = 2, .launch = 0.5});
  for (const Kernel& kernel : {Kernel(large_gemm), Kernel(large_copy)}) {
    EXPECT_NEAR(same.time(kernel, fc1) / gpu.time(kernel, fc1), 1, 1e-12);
    EXPECT_NEAR(faster.time(kernel, fc1) / gpu.time(kernel, fc1), 0.5, 1e-9);
  }
  const GpuModel flops = changed(gpu, {.flops = 2});
  EXPECT_LT(flops.time(large_gemm, fc1) / gpu.time(large_gemm, fc1), 0.6);
  EXPECT_NEAR(flops.time(large_copy, fc1) / gpu.time(large_copy, fc1), 1, 1e-9);
}

TEST(GpuChanges, OfTablesWithoutAPeakAreThoseOfFlops) {
  const GpuModel gpu = parse_gpu_model(
      "name: g\nsource: a test\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\npeak: {fp32: 1 TFLOP/s}\n"
      "gemm: [{n: 64, k: 64, type: bf16, points: [{groups: 1, m: 64, time: 20 us}]}]\n",
      "g.yaml");
  const GroupedGemm gemm{{64}, 64, 64, DataType::bf16};
  EXPECT_NEAR(changed(gpu, {.flops = 4}).time(gemm, fc1).value, 5e-6, 1e-12);
}

TEST(GpuChanges, OfTheHostLeaveWhatTheNetworkNeedsAtLeast) {
  const GpuModel slow = changed(shipped_gpu("h100-sxm"), {.host = 3});
  EXPECT_NEAR(slow.time(HostWork{1000}, {OpKind::planning}).value, 3e-6, 1e-15);
  EXPECT_NEAR(slow.time(HostWork{1000}, {OpKind::minimum_time}).value, 1e-6, 1e-15);
  EXPECT_EQ(slow.time(large_gemm, fc1), shipped_gpu("h100-sxm").time(large_gemm, fc1));
}

}  // namespace
}  // namespace moesim
