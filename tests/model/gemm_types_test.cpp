// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gemm_types.h"

#include <gtest/gtest.h>

#include "sim/model/blocks.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

/// Layers 2 to 5 of 8, and multi-token prediction behind them.
GemmTypes inner_layers(GemmParts parts) {
  return {DataType::fp8, DataType::bf16, parts, 2, 6, 8, true};
}

TEST(GemmTypes, AreOthersOutsideOfPartsAndLayers) {
  const GemmTypes types = inner_layers({GemmPart::experts});
  EXPECT_EQ(types.of(GemmPart::experts, 1), DataType::bf16);
  EXPECT_EQ(types.of(GemmPart::experts, 2), DataType::fp8);
  EXPECT_EQ(types.of(GemmPart::experts, 5), DataType::fp8);
  EXPECT_EQ(types.of(GemmPart::experts, 6), DataType::bf16);
  EXPECT_EQ(types.of(GemmPart::shared, 3), DataType::bf16);
  EXPECT_EQ(types.of(GemmPart::head, 0), DataType::bf16);
  EXPECT_EQ(types.of_experts(), DataType::fp8);
  EXPECT_EQ(inner_layers({GemmPart::attention}).of_experts(), DataType::bf16);
}

TEST(GemmTypes, OfEnginesAreOfStoredTypesInExpertsAlone) {
  MoeModel model;
  for (const DataType stored : stored_types) {
    const GemmTypes types = GemmTypes::served(stored, model);
    for (const int layer : {0, 35, 36}) {
      EXPECT_EQ(types.of(GemmPart::experts, layer), stored);
      EXPECT_EQ(types.of(BlockKind::attention, layer), DataType::bf16);
      EXPECT_EQ(types.of(BlockKind::moe, layer), DataType::bf16) << "shared experts";
      EXPECT_EQ(types.of(BlockKind::dense_ffn, layer), DataType::bf16);
    }
    EXPECT_EQ(types.of(BlockKind::head, 0), DataType::bf16);
    EXPECT_EQ(types.of_experts(), stored);
  }
  const GemmTypes others = GemmTypes::served(DataType::fp8, model);
  EXPECT_EQ(others.of(BlockKind::attention, 3), DataType::fp8);
  EXPECT_EQ(others.of(BlockKind::head, 0), DataType::bf16);
}

TEST(GemmTypes, OfEnginesMayLeavePartsAsTheyAre) {
  MoeModel model;
  model.layers = 4;
  const GemmTypes all = GemmTypes::served(DataType::fp4, model);
  EXPECT_EQ(all.of(BlockKind::attention, 1), DataType::fp4);
  EXPECT_EQ(all.of(BlockKind::mtp, 4), DataType::fp4);
  const GemmTypes types = GemmTypes::served(
      DataType::fp4, model, GemmParts{GemmPart::experts, GemmPart::shared, GemmPart::mtp});
  EXPECT_EQ(types.of(BlockKind::attention, 1), DataType::bf16);
  EXPECT_EQ(types.of(BlockKind::attention, 4), DataType::bf16) << "multi-token prediction";
  EXPECT_EQ(types.of(BlockKind::moe, 1), DataType::fp4);
  EXPECT_EQ(types.of(BlockKind::dense_ffn, 1), DataType::bf16);
  EXPECT_EQ(types.of(BlockKind::mtp, 4), DataType::fp4);
  EXPECT_EQ(types.of_experts(), DataType::fp4);
}

TEST(GemmTypes, OfOtherPartsAreThoseOfTheCheckpoint) {
  MoeModel model;
  model.checkpoint_others = DataType::fp8;
  const GemmTypes types = GemmTypes::served(DataType::mxfp4_mxfp8, model);
  EXPECT_EQ(types.of(GemmPart::experts, 3), DataType::mxfp4_mxfp8);
  EXPECT_EQ(types.of(BlockKind::attention, 3), DataType::fp8);
  EXPECT_EQ(types.of(BlockKind::head, 0), DataType::bf16);
  model.weights = DataType::mxfp4_mxfp8;
  EXPECT_EQ(model.other_weights(), DataType::fp8);
  EXPECT_EQ(type_of_rows(model.weights), DataType::fp8);
  EXPECT_TRUE(is_quantized(model.weights)) << "rows are cast";
  EXPECT_EQ(bytes_of(64, model.weights), bytes_of(64, DataType::mxfp4));
}

TEST(ServingPrecisions, HaveNamesBothWays) {
  for (int i = 0; i < std::ssize(serving_precision_names); ++i) {
    EXPECT_EQ(precision_of_type(type_of_precision(i)),
              serving_precision_names[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(type_of_precision(2), DataType::fp4);
  EXPECT_EQ(precision_of_type(DataType::mxfp4), "mxfp4");
  EXPECT_EQ(precision_of_type(DataType::int4), "int4");
  EXPECT_THROW(precision_of_type(DataType::fp32), std::invalid_argument);
}

TEST(GemmTypes, OfTheHeadHaveNoLayer) {
  EXPECT_EQ(inner_layers({GemmPart::head}).of(GemmPart::head, 0), DataType::fp8);
  EXPECT_EQ(inner_layers({GemmPart::head}).of(BlockKind::head, 7), DataType::fp8);
}

TEST(GemmTypes, OfMultiTokenPredictionNeedItsPartAndTheirOwn) {
  EXPECT_EQ(inner_layers({GemmPart::experts}).of(GemmPart::experts, 8), DataType::bf16);
  const GemmTypes both = inner_layers({GemmPart::experts, GemmPart::mtp});
  EXPECT_EQ(both.of(GemmPart::experts, 8), DataType::fp8) << "behind the last layers, not of them";
  EXPECT_EQ(both.of(GemmPart::mtp, 8), DataType::fp8);
  EXPECT_EQ(both.of(GemmPart::attention, 8), DataType::bf16);
}

TEST(GemmTypes, OfWeightGradientsMayBeOthersWithWhichInputsAreKept) {
  GemmTypes types = inner_layers({GemmPart::experts});
  EXPECT_EQ(types.of(GemmPart::experts, 3, Role::wgrad), DataType::fp8);
  EXPECT_EQ(types.kept_of_experts(), DataType::fp8);
  types.weight_gradients = false;
  EXPECT_EQ(types.of(GemmPart::experts, 3, Role::wgrad), DataType::bf16);
  EXPECT_EQ(types.of(GemmPart::experts, 3, Role::dgrad), DataType::fp8);
  EXPECT_EQ(types.kept_of_experts(), DataType::bf16);
}

TEST(GemmTypes, MakeLayersOfOneKindDifferIfTheirTypesDo) {
  const MoeModel model = shipped_model("qwen3-30b-a3b");
  BlockShard shard{256, 128};
  shard.gemm_types = {DataType::fp8, DataType::bf16, {GemmPart::attention}, 2, 6, model.layers};
  const auto first = [&](int layer) {
    return first_with_same(model, layer, BlockKind::attention, shard.gemm_types);
  };
  EXPECT_EQ(first(0), 0);
  EXPECT_EQ(first(4), 2);
  EXPECT_EQ(first(7), 1) << "as the second, which adds what the first left it";
  const auto type_of_output = [&](int layer) {
    for (const BlockKernel& made : forward_kernels(model, layer, BlockKind::attention, shard)) {
      if (made.kind == OpKind::attention_output) return std::get<GroupedGemm>(made.kernel).type;
    }
    return DataType::fp32;
  };
  EXPECT_EQ(type_of_output(4), DataType::fp8);
  EXPECT_EQ(type_of_output(7), DataType::bf16);
}

}  // namespace
}  // namespace moesim
