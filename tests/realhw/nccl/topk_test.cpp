// SPDX-License-Identifier: Apache-2.0
// The top-k codec on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/realhw/cuda/topk_case.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(Topk, KeepsTheLargestDifferencesOfEachBlock) {
  // Two blocks of three, the second one short: two are kept of each.
  TopkCase c({1, 5, 3, 2, RowFormat::float32}, 1);
  c.set(c.shared, {1, 1, 1, 1, 1});
  c.set(c.x, {2, -4, 1.5f, 1, 3});  // differences 1, -5, 0.5 | 0, 2
  c.encode();
  EXPECT_THAT(c.indices, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(c.get(c.values), ElementsAre(1, -5, 0, 2));
  EXPECT_THAT(c.get(c.rest), ElementsAre(0, 0, 0.5f, 0, 0));
  c.decode();
  EXPECT_THAT(c.get(c.decoded), ElementsAre(2, -4, 1, 1, 3));
}

TEST(Topk, TiesGoToTheLowerIndexAndMissingElementsAreMarked) {
  TopkCase c({1, 5, 4, 2, RowFormat::float32}, 1);
  c.set(c.shared, {0, 0, 0, 0, 0});
  c.set(c.x, {3, -3, 3, 3, 7});
  c.encode();
  EXPECT_THAT(c.indices, ElementsAre(0, 1, 0, no_element));
  EXPECT_THAT(c.get(c.values), ElementsAre(3, -3, 7, 0));
}

TEST(Topk, WhatIsKeptIsLargestAndTheRestIsTheDifference) {
  std::mt19937 random(5);
  for (int attempt = 0; attempt < 40; ++attempt) {
    TopkCase c(random_topk_shape(random), static_cast<unsigned>(attempt));
    c.encode();
    c.decode();
    const auto x = c.get(c.x), shared = c.get(c.shared), values = c.get(c.values);
    const auto rest = c.get(c.rest), decoded = c.get(c.decoded);
    const bool exact = c.shape.format == RowFormat::float32;
    for (std::int64_t b = 0; b < c.shape.rows * c.shape.blocks(); ++b) {
      const std::int64_t in_row = b % c.shape.blocks() * c.shape.block;
      const std::int64_t first = b / c.shape.blocks() * c.shape.width + in_row;
      const auto size =
          static_cast<std::size_t>(std::min<std::int64_t>(c.shape.block, c.shape.width - in_row));
      std::set<std::size_t> kept;
      for (std::size_t e = 0; e < static_cast<std::size_t>(c.shape.kept); ++e) {
        const std::size_t entry = static_cast<std::size_t>(b * c.shape.kept) + e;
        if (c.indices[entry] == no_element) continue;
        kept.insert(c.indices[entry]);
        const std::size_t at = static_cast<std::size_t>(first) + c.indices[entry];
        if (exact) {
          EXPECT_EQ(values[entry], x[at] - shared[at]);
          EXPECT_FLOAT_EQ(decoded[at], shared[at] + values[entry]);
        }
      }
      ASSERT_EQ(kept.size(), std::min(size, static_cast<std::size_t>(c.shape.kept)));
      float least_kept = INFINITY, most_left = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t at = static_cast<std::size_t>(first) + i;
        const float difference = x[at] - shared[at];
        if (kept.contains(i)) {
          least_kept = std::min(least_kept, std::fabs(difference));
          EXPECT_EQ(rest[at], 0);
        } else {
          most_left = std::max(most_left, std::fabs(difference));
          if (exact) {
            EXPECT_EQ(rest[at], difference);
          }
          EXPECT_EQ(decoded[at], shared[at]);
        }
      }
      EXPECT_GE(least_kept, most_left);
    }
  }
}

TEST(Topk, RefusesShapesThatAreNone) {
  for (const TopkShape& shape :
       {TopkShape{1, 8, 8192, 2, RowFormat::float32}, TopkShape{1, 8, 4, 5, RowFormat::float32},
        TopkShape{1, 8, 4, 0, RowFormat::float32}, TopkShape{1, 8, 4, 2, RowFormat::float8}}) {
    EXPECT_THROW(check_shape(shape), std::runtime_error);
  }
}

}  // namespace
}  // namespace moesim
