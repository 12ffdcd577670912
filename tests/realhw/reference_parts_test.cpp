// SPDX-License-Identifier: Apache-2.0
// What the reference computes from: gate weights, rounded experts and the start of dense
// parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "realhw/core/dense_tensors.h"
#include "realhw/core/numbers.h"
#include "realhw/core/reference.h"
#include "realhw/core/routed_layer.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(RoutedLayer, GateWeightsOfWhatIsKeptSumToOne) {
  // Two tokens of two choices; the second choice of token 1 is dropped.
  const RoutedLayer layer(ServedLayer{4, 2, Placement(2, {test::ids<ExpertId>({0, 1})}),
                                      test::ids<GpuId>({0, 0}), test::ids<ExpertId>({0, 1, 1, 0}),
                                      test::ids<SlotId>({0, 1, 1, -1})});
  EXPECT_THAT(layer.kept, ElementsAre(3, 1));
  const double first = raw_gate_weight(4, TokenId(0), 0),
               second = raw_gate_weight(4, TokenId(0), 1);
  EXPECT_NE(first, second);
  EXPECT_THAT(layer.weight,
              ElementsAre(testing::FloatEq(static_cast<float>(first / (first + second))),
                          testing::FloatEq(static_cast<float>(second / (first + second))), 1, 0));
}

TEST(ReferenceExpert, RoundsItsParameters) {
  const ExpertShape shape(1, 1, false);
  const auto rounded = [](float value) {
    std::byte row[4];
    encode(RowFormat::bfloat16, {&value, 1}, row);
    decode(RowFormat::bfloat16, row, {&value, 1});
    return static_cast<double>(value);
  };
  const ExpertWeights weights(shape, 2, ExpertId(3));
  const double h = 0.5 * rounded(weights.w1[0]);
  const double y = h / (1 + std::exp(-h)) * rounded(weights.w2[0]);
  ReferenceExpert expert(shape, 2, ExpertId(3), RowFormat::bfloat16);
  EXPECT_THAT(expert.output({0.5f}), ElementsAre(testing::DoubleEq(y)));
}

TEST(DenseTensors, StartNearOneOrWithinTheirBound) {
  MoeModel model;
  model.hidden = 12;
  model.vocabulary = 50;
  const DenseTensors head(model, {StagePartKind::head, 0});
  const std::vector<float> values = head.initial();
  ASSERT_EQ(values.size(), 12U + 12 * 50);
  float least = 2, most = -2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float middle = i < 12 ? 1 : 0, bound = i < 12 ? 0.125f : 0.5f;  // sqrt(3 / 12)
    EXPECT_LE(std::fabs(values[i] - middle), bound) << i;
    least = std::min(least, i < 12 ? least : values[i]);
    most = std::max(most, i < 12 ? most : values[i]);
  }
  EXPECT_NE(values[0], values[1]);
  EXPECT_LT(least, -0.45f);
  EXPECT_GT(most, 0.45f);
}

TEST(DenseTensors, MomentsStartWithinTheirBounds) {
  std::vector<float> first(1000), second(1000), other(1000);
  DenseTensors::fill_moments(5, first, second);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_LE(std::fabs(first[i]), 1e-3f);
    EXPECT_GE(second[i], 1e-6f);
    EXPECT_LE(second[i], 2e-6f);
  }
  EXPECT_LT(*std::ranges::min_element(first), -0.9e-3f);
  EXPECT_GT(*std::ranges::max_element(first), 0.9e-3f);
  EXPECT_LT(*std::ranges::min_element(second), 1.1e-6f);
  EXPECT_GT(*std::ranges::max_element(second), 1.9e-6f);
  DenseTensors::fill_moments(6, other, second);
  EXPECT_NE(other, first);
}

}  // namespace
}  // namespace moesim
