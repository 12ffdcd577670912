// SPDX-License-Identifier: Apache-2.0
// Times that contradict each other, and what runs of other rank counts say in their place.
#include "sim/linkfit/sizes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/linkfit/robust.h"

namespace moesim {
namespace {

std::vector<Sample> curve(std::initializer_list<std::pair<int, double>> microseconds) {
  std::vector<Sample> samples;
  for (const auto& [bytes, time] : microseconds) samples.push_back({Bytes(bytes), Seconds(time)});
  return samples;
}

std::vector<double> contradicted(const std::vector<Sample>& samples) {
  std::vector<double> bytes;
  for (const SizeTimes& s : sizes_of(samples)) {
    if (s.contradicted) bytes.push_back(s.bytes);
  }
  return bytes;
}

using Doubles = std::vector<double>;

TEST(Sizes, TheirOwnTimesMayBeTwelvePercentApart) {
  EXPECT_EQ(contradicted(curve({{8, 100}, {8, 111}, {16, 200}, {16, 225}, {32, 400}})),
            Doubles{16});
}

TEST(Sizes, AscendByPoolingNeighbours) {
  const std::vector<SizeTimes> pooled =
      ascending(sizes_of(curve({{8, 130}, {16, 110}, {32, 200}})));
  const Doubles expected = ascending(Doubles{130, 110, 200});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(pooled[i].seconds / pooled[2].seconds, expected[i] / expected[2]);
  }
  EXPECT_EQ(pooled[0].seconds, pooled[1].seconds);
}

TEST(Sizes, HaveASpreadOfSeveralTimes) {
  EXPECT_EQ(sizes_of(curve({{8, 100}}))[0].spread, -1);
  EXPECT_GT(sizes_of(curve({{8, 100}, {8, 104}}))[0].spread, 0);
}

TEST(Sizes, ThatTakeLongerThanLargerOnesContradictEachOther) {
  EXPECT_EQ(contradicted(curve({{8, 100}, {16, 125}, {32, 110}, {64, 130}})), (Doubles{16, 32}));
  EXPECT_EQ(contradicted(curve({{16, 125}, {32, 110}, {64, 130}})), (Doubles{16, 32}));
  EXPECT_EQ(contradicted(curve({{8, 100}, {16, 122}, {32, 110}, {64, 130}})), Doubles{});
  EXPECT_EQ(contradicted(curve({{8, 100}, {16, 125}, {40, 110}, {128, 130}})), Doubles{})
      << "more than twice as large";
}

// Among many sizes the median of three neighbours decides, so that a wild one condemns only itself.
TEST(Sizes, AmongManyAWildOneCondemnsItselfAlone) {
  const auto steady = [](int wild, double factor) {
    std::vector<Sample> samples;
    for (int i = 0; i < 40; ++i) {
      samples.push_back({Bytes(1000 + 10 * i), Seconds((100 + i) * (i == wild ? factor : 1))});
    }
    return samples;
  };
  EXPECT_EQ(contradicted(steady(20, 2)), Doubles{1200});
  EXPECT_EQ(contradicted(steady(20, 0.5)), Doubles{1200});
  EXPECT_EQ(contradicted(steady(20, 1.05)), Doubles{});
}

const std::vector<Sample> eight = curve({{1, 10}, {2, 12}, {8, 30}, {16, 60}});
const std::vector<Sample> four = curve({{1, 5}, {2, 6}, {4, 11}, {8, 12}, {16, 20}});

double seconds_at(const std::vector<SizeTimes>& sizes, double bytes) {
  for (const SizeTimes& s : sizes) {
    if (s.bytes == bytes) return s.seconds;
  }
  return std::nan("");
}

// At 2 bytes the curves are 2 apart, at 8 bytes 2.5, and 4 lies half way.
TEST(Settled, TakesAMissingSizeFromTheCurveBeside) {
  const std::vector<SizeTimes> sizes = settled(sizes_of(eight), {four});
  ASSERT_EQ(sizes.size(), 5U);
  EXPECT_NEAR(seconds_at(sizes, 4), 11 * std::sqrt(2 * 2.5), 1e-9);
  EXPECT_EQ(sizes[2].samples, 0);
  EXPECT_EQ(seconds_at(sizes, 8), 30) << "measured";
  EXPECT_EQ(settled(sizes_of(eight), {}).size(), 4U);
}

TEST(Settled, TakesTheGeometricMeanOfSeveral) {
  const std::vector<Sample> two = curve({{2, 3}, {4, 4}, {8, 5}});
  const double by_two = 4 * std::sqrt(12.0 / 3 * 30 / 5);
  EXPECT_NEAR(seconds_at(settled(sizes_of(eight), {four, two}), 4),
              std::sqrt(by_two * 11 * std::sqrt(5)), 1e-9);
}

TEST(Settled, LeavesOutWhatNothingTells) {
  const std::vector<Sample> wild = curve({{1, 10}, {2, 20}, {2, 12}, {4, 25}, {8, 30}});
  EXPECT_EQ(settled(sizes_of(wild), {}).size(), 3U);
  EXPECT_NEAR(seconds_at(settled(sizes_of(wild), {four}), 2), 6 * std::sqrt(10.0 / 5 * 25 / 11),
              1e-9);
  EXPECT_EQ(settled(sizes_of(wild), {curve({{2, 6}, {4, 11}})}).size(), 3U) << "no smaller size";
  EXPECT_EQ(
      settled(sizes_of(curve({{1, 10}, {512, 60}})), {curve({{1, 5}, {16, 6}, {512, 20}})}).size(),
      2U)
      << "more than four times away";
}

}  // namespace
}  // namespace moesim
