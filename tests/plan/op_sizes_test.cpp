// SPDX-License-Identifier: Apache-2.0
// Sizes up to 2^53 are taken, one beyond is not.
#include "sim/plan/op_sizes.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

constexpr std::int64_t most_bytes = std::int64_t{1} << 53;

TEST(OpSizes, OfMemoryTrafficAddUp) {
  EXPECT_EQ(size_mistake(MemoryBound{Bytes(most_bytes - 5), Bytes(5)}), "");
  EXPECT_EQ(size_mistake(MemoryBound{Bytes(most_bytes - 5), Bytes(7)}),
            ": a kernel of 9.01e+15 bytes, more than 9.01e+15");
}

TEST(OpSizes, OfProductsAreRowsWeightsAndResults) {
  // 2 bytes x (m k + k n + m n) for each group.
  const std::int64_t k = (most_bytes / 2 - 3) / 4;
  EXPECT_EQ(size_mistake(GroupedGemm{{1}, 3, k, DataType::bf16}), "");
  EXPECT_NE(size_mistake(GroupedGemm{{1}, 3, k + 1, DataType::bf16}), "");
  EXPECT_NE(size_mistake(GroupedGemm{{1, 1}, 3, k, DataType::bf16}), "");
  EXPECT_EQ(size_mistake(GroupedGemm{{1}, 3, 2 * k, DataType::fp8}), "");
}

TEST(OpSizes, OfAttentionAreHeadsAndKeys) {
  // 2 bytes x (2 queries x 3 heads x 4 wide + attended).
  const AttentionHeads shape{2, 1, 3, 1, DataType::bf16};
  const std::int64_t queries = most_bytes / 2 / 24, attended = most_bytes / 2 % 24;
  EXPECT_EQ(size_mistake(FusedAttention{queries, attended, shape}), "");
  EXPECT_NE(size_mistake(FusedAttention{queries, attended + 1, shape}), "");
}

TEST(OpSizes, OfWaitsAreNanoseconds) {
  EXPECT_EQ(size_mistake(HostWork{most_bytes}), "");
  EXPECT_EQ(size_mistake(HostWork{most_bytes + 2}), ": 9.01e+15 ns of work");
}

TEST(OpSizes, OfExchangesAreUnitsOfAllPairs) {
  const auto moves = [](std::uint32_t first, std::uint32_t second) {
    ByteMatrix traffic(Bytes(std::int64_t{1} << 40));
    traffic.add_row(std::vector<ByteMatrix::Entry>{{GpuId(0), first}, {GpuId(1), 1}});
    traffic.add_row(std::vector<ByteMatrix::Entry>{{GpuId(0), second}});
    return traffic;
  };
  EXPECT_EQ(size_mistake(8192, Bytes(std::int64_t{1} << 40)), "");
  EXPECT_EQ(size_mistake(8193, Bytes(std::int64_t{1} << 40)),
            ": an exchange of 9.01e+15 bytes, more than 9.01e+15");
  check_plan({"large", 2, {exchange("x", {0, 1}, moves(8000, 191))}});
  EXPECT_EQ(error_of([&] {
              check_plan({"large", 2, {exchange("x", {0, 1}, moves(8000, 192))}});
            }),
            "error: op 0 'x': an exchange of 9.01e+15 bytes, more than 9.01e+15\n");
}

TEST(OpSizes, OfKernelsAreChecked) {
  EXPECT_EQ(
      error_of([&] {
        check_plan({"large", 1, {kernel("k", 0, {}, MemoryBound{Bytes(2 * most_bytes), {}})}});
      }),
      "error: op 0 'k': a kernel of 1.8e+16 bytes, more than 9.01e+15\n");
}

}  // namespace
}  // namespace moesim
