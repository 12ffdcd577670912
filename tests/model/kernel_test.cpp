// SPDX-License-Identifier: Apache-2.0
#include "sim/model/kernel.h"

#include <gtest/gtest.h>

#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

constexpr AttentionHeads grouped{8, 2, 64, 32, DataType::bf16, Pass::forward};

AttentionHeads backward(AttentionHeads shape) {
  shape.pass = Pass::backward;
  return shape;
}

TEST(GroupedGemm, MovesFourBitsAndAScalePerSixteenElementsInFp4) {
  const GroupedGemm gemm{{16}, 32, 64, DataType::fp4};
  // 16 x 64 + 16 x 32 + 32 x 64 elements at half a byte, and a byte for each 16 of them
  EXPECT_EQ(memory_traffic_of(gemm), Bytes(3584 / 2 + 3584 / 16));
  EXPECT_EQ(bytes_of(17, DataType::fp4), Bytes(10));  // 9.5625, rounded up
  EXPECT_EQ(bytes_of(17, DataType::fp8), Bytes(17));
  EXPECT_EQ(bytes_per_element(DataType::fp4), 0.5625);
  EXPECT_THROW(size_of(DataType::fp4), std::logic_error);
}

TEST(GroupedGemm, MovesWeightsOfMxfp4AndRowsOfBf16) {
  const GroupedGemm gemm{{16, 0, 3}, 32, 64, DataType::mxfp4};
  // 19 rows of 64 and 32 elements in two bytes; two groups' weights at half a byte, and a byte for
  // each 32 of them
  EXPECT_EQ(memory_traffic_of(gemm), Bytes(2 * 19 * (64 + 32) + 2 * (2048 / 2 + 2048 / 32)));
  EXPECT_EQ(bytes_of(33, DataType::mxfp4), Bytes(18));  // 17.53, rounded up
  EXPECT_EQ(bytes_per_element(DataType::mxfp4), 0.53125);
  EXPECT_THROW(size_of(DataType::mxfp4), std::logic_error);
  EXPECT_EQ(type_of_rows(DataType::mxfp4), DataType::bf16);
  EXPECT_EQ(type_of_rows(DataType::fp4), DataType::fp4);
  EXPECT_FALSE(is_quantized(DataType::mxfp4)) << "rows are not cast";
}

TEST(GroupedGemm, MovesWeightsOfInt4WithWiderScales) {
  const GroupedGemm gemm{{16, 0, 3}, 32, 64, DataType::int4};
  EXPECT_EQ(memory_traffic_of(gemm), Bytes(2 * 19 * (64 + 32) + 2 * (2048 / 2 + 2 * 2048 / 32)));
  EXPECT_EQ(bytes_of(32, DataType::int4), Bytes(18));
  EXPECT_EQ(bytes_per_element(DataType::int4), 0.5625);
  EXPECT_THROW(size_of(DataType::int4), std::logic_error);
  EXPECT_EQ(type_of_rows(DataType::int4), DataType::bf16);
  EXPECT_FALSE(is_quantized(DataType::int4)) << "rows are not cast";
}

TEST(FusedAttention, ForwardMultipliesQueriesByKeysAndWeightsByValues) {
  // 2 x 10 x 100 x 8 heads x (64 + 32)
  EXPECT_EQ(flops_of(FusedAttention{10, 100, grouped}), Flops(2.0 * 10 * 100 * 8 * 96));
  // 8 heads of queries and results, 2 of keys and values, 2 bytes each
  EXPECT_EQ(memory_traffic_of(FusedAttention{10, 100, grouped}), Bytes(10 * (8 + 2) * 96 * 2));
}

TEST(FusedAttention, BackwardHasFiveProductsForTwo) {
  AttentionHeads equal = grouped;
  equal.v_width = equal.qk_width;
  EXPECT_EQ(flops_of(FusedAttention{10, 100, backward(equal)}),
            2.5 * flops_of(FusedAttention{10, 100, equal}));
  EXPECT_EQ(flops_of(FusedAttention{10, 100, backward(grouped)}),
            Flops(2.0 * 10 * 100 * 8 * (3 * 64 + 2 * 32)));
  EXPECT_EQ(memory_traffic_of(FusedAttention{10, 100, backward(grouped)}),
            2 * memory_traffic_of(FusedAttention{10, 100, grouped}));
}

TEST(FusedAttention, IsNothingWithoutQueriesOrKeys) {
  EXPECT_TRUE(is_empty(FusedAttention{0, 100, grouped}));
  EXPECT_TRUE(is_empty(FusedAttention{10, 0, grouped}));
  EXPECT_FALSE(is_empty(FusedAttention{1, 1, grouped}));
}

TEST(FusedAttention, HasAProductOfEqualFlops) {
  for (const AttentionHeads& shape : {grouped, backward(grouped)}) {
    const FusedAttention attention{10, 100, shape};
    EXPECT_EQ(flops_of(gemm_of_equal_flops(attention)), flops_of(attention));
  }
}

TEST(FusedAttention, TakesItsRoofline) {
  const GpuModel gpu = parse_gpu_model(
      "name: toy\nsource: none\nmemory: 1 GB\nmemory_bandwidth: 1 GB/s\n"
      "peak: {bf16: 1 GFLOP/s}\nlaunch_overhead: 5 us\n"
      "memory_bound: [{points: [{bytes: 1 KiB, time: 1 us}]}]\n",  // of other kernels
      "g.yaml");
  // 1,536,000 flop; of one query and key 1,536 flop and 1,920 bytes.
  EXPECT_NEAR(gpu.time(FusedAttention{10, 100, grouped}).value, 5e-6 + 1.536e-3, 1e-12);
  EXPECT_NEAR(gpu.time(FusedAttention{1, 1, grouped}).value, 5e-6 + 1.92e-6, 1e-12);
  EXPECT_EQ(gpu.time(FusedAttention{0, 100, grouped}), Seconds(0));
}

}  // namespace
}  // namespace moesim
