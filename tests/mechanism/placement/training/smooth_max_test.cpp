// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/smooth_max.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/mechanism/placement/training/gamma_norm.h"

namespace moesim {
namespace {

double smax(const std::vector<double>& counts, double gamma = 10) {
  return gamma_norm(counts, gamma);
}

TEST(SmoothMaxTest, KnownValues) {
  EXPECT_NEAR(smax({4, 4}), 4.287094, 5e-7);
  EXPECT_NEAR(smax({4, 3}), 4.021974, 5e-7);
  EXPECT_NEAR(smax({3, 2}), 3.005162, 5e-7);
  EXPECT_DOUBLE_EQ(smax({5, 0, 0}), 5);
  EXPECT_NEAR(smax(std::vector<double>(4, 1)), 1.148698, 5e-7);
  EXPECT_NEAR(smax(std::vector<double>(8, 1)), 1.231144, 5e-7);
  EXPECT_NEAR(smax(std::vector<double>(16, 1)), 1.319508, 5e-7);
  EXPECT_NEAR(smax(std::vector<double>(32, 1)), 1.414214, 5e-7);
  EXPECT_EQ(smax({0, 0, 0}), 0);
  EXPECT_EQ(smax({}), 0);
}

TEST(SmoothMaxTest, ScalesAndTendsToTheMaximum) {
  EXPECT_DOUBLE_EQ(smax({7e6, 21e6, 14e6}), 7e6 * smax({1, 3, 2}));
  double previous = smax({3, 2, 3}, 1);
  EXPECT_DOUBLE_EQ(previous, 8);
  for (const double gamma : {5., 10., 100., 300.}) {
    EXPECT_LT(smax({3, 2, 3}, gamma), previous);
    previous = smax({3, 2, 3}, gamma);
  }
  EXPECT_NEAR(previous, 3, 0.01);
}

/// The maximum by its definition; `scale` is the largest count before the changes.
double maximum_of(const Maximum& maximum, const std::vector<std::int64_t>& counts, double scale) {
  const std::vector<double> values(counts.begin(), counts.end());
  if (maximum.kind == MaximumKind::hard) return *std::ranges::max_element(values);
  if (maximum.kind == MaximumKind::smooth) return gamma_norm(values, maximum.gamma);
  double sum = 0;
  for (const double x : values) sum += std::exp(maximum.gamma * (x / scale - 1));
  return scale * (1 + std::log(sum) / maximum.gamma);
}

TEST(TwoChangesTest, AgreesWithTheWholeVector) {
  std::mt19937 random(3);
  for (const auto kind : {MaximumKind::hard, MaximumKind::smooth, MaximumKind::log_sum_exp}) {
    for (int n = 2; n < 9; ++n) {
      std::vector<std::int64_t> counts;
      for (int i = 0; i < n; ++i) counts.push_back(static_cast<std::int64_t>(random() % 1000));
      const auto largest = static_cast<double>(*std::ranges::max_element(counts));
      const Maximum maximum{kind, n % 2 == 0 ? 7 : 6.5};
      const TwoChanges changes(maximum, counts);
      EXPECT_NEAR(changes.unchanged(), maximum_of(maximum, counts, largest), 1e-9);
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
          if (i == j) continue;
          std::vector<std::int64_t> after = counts;
          const std::int64_t a = after[i] = static_cast<std::int64_t>(random() % 1000);
          const std::int64_t b = after[j] = static_cast<std::int64_t>(random() % 1000);
          EXPECT_NEAR(changes.changed(i, a, j, b), maximum_of(maximum, after, largest), 1e-9);
        }
      }
    }
  }
}

/// If the large term were subtracted from the sum, rounding would leave nothing of the small ones.
TEST(TwoChangesTest, KeepsSmallEntriesBesideALargeOne) {
  const std::vector<std::int64_t> counts = {1'000'000, 3, 2};
  EXPECT_DOUBLE_EQ(TwoChanges({}, counts).changed(0, 4, 2, 1), smax({4, 3, 1}));
}

TEST(TwoChangesTest, LogSumExpBoundsTheMaximum) {
  const std::vector<std::int64_t> counts = {40, 30, 40};
  const double value = TwoChanges({MaximumKind::log_sum_exp, 10}, counts).unchanged();
  EXPECT_GT(value, 40);
  EXPECT_LE(value, 40 * (1 + std::log(3) / 10));
}

TEST(TwoChangesTest, ZerosStayZero) {
  const std::vector<std::int64_t> counts = {0, 0}, none;
  for (const auto kind : {MaximumKind::hard, MaximumKind::smooth, MaximumKind::log_sum_exp}) {
    EXPECT_EQ(TwoChanges({kind, 10}, none).unchanged(), 0);
    EXPECT_EQ(TwoChanges({kind, 10}, counts).unchanged(), 0);
    EXPECT_EQ(TwoChanges({kind, 10}, counts).changed(0, 0, 1, 0), 0);
  }
}

}  // namespace
}  // namespace moesim
