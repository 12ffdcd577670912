// SPDX-License-Identifier: Apache-2.0
// The shipped fits near rates that their tables' authors and others have published.
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

double tflops(const std::string& gpu, const Kernel& kernel, OpType op = {OpKind::fc1}) {
  const GpuModel model = read_gpu_model(data_file("models/gpu", gpu));
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

TEST(MeasuredGpus, MultiplyGroupsInFp8AsDeepGemmPublishes) {
  const auto groups = [](int count, std::int64_t m, std::int64_t n, std::int64_t k) {
    return GroupedGemm{std::vector<std::int64_t>(static_cast<std::size_t>(count), m), n, k,
                       DataType::fp8};
  };
  expect_within(0.1, tflops("h800-measured", groups(4, 8192, 4096, 7168)), 1346);
  expect_within(0.1, tflops("h800-measured", groups(4, 8192, 7168, 2048)), 1214);
  expect_within(0.1, tflops("h800-measured", groups(1, 4096, 4096, 7168)), 1410);
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

}  // namespace
}  // namespace moesim
