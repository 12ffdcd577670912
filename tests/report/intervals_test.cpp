// SPDX-License-Identifier: Apache-2.0
// Unions of intervals against a grid of moments, in whichever order they come.
#include "sim/report/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace moesim::test {
namespace {

constexpr int moments = 60;

/// Which of the moments [i, i + 1) intervals of whole numbers cover.
std::vector<bool> covered(const std::vector<Interval>& intervals) {
  std::vector<bool> grid(moments, false);
  for (const Interval& i : intervals) {
    for (int t = static_cast<int>(i.start.value); t < static_cast<int>(i.end.value); ++t) {
      grid[static_cast<std::size_t>(t)] = true;
    }
  }
  return grid;
}

/// Runs that ascend; one has all intervals and many have a few each.
std::vector<Interval> drawn(std::mt19937& random, int count, int runs) {
  std::vector<Interval> all;
  for (int r = 0; r < runs; ++r) {
    std::vector<Interval> run;
    for (int i = 0; i < count / runs; ++i) {
      const int start = static_cast<int>(random() % (moments - 8));
      const int length = 1 + static_cast<int>(random() % 7);
      run.push_back({Seconds(start), Seconds(start + length)});
    }
    std::ranges::sort(run, {}, &Interval::start);
    all.insert(all.end(), run.begin(), run.end());
  }
  return all;
}

void expect_union(const std::vector<Interval>& intervals, const std::vector<bool>& expected) {
  EXPECT_EQ(covered(intervals), expected);
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    EXPECT_LT(intervals[i - 1].end, intervals[i].start);  // apart, and ascending
  }
}

TEST(Intervals, AreUnitedInWhicheverOrderTheyCome) {
  std::mt19937 random(11);
  for (const int runs : {1, 2, 3, 4, 7, 12, 24}) {
    for (int round = 0; round < 50; ++round) {
      const auto intervals = drawn(random, 24, runs);
      expect_union(united(intervals), covered(intervals));
    }
  }
  EXPECT_TRUE(united({}).empty());
}

TEST(Intervals, HaveOneUnionOneByOneAndAtOnce) {
  std::mt19937 random(12);
  bool shortened = false;
  for (const int runs : {1, 3, 12}) {
    for (int round = 0; round < 50; ++round) {
      const auto intervals = drawn(random, 24, runs);
      std::vector<Interval> added;
      for (const Interval& i : intervals) add_interval(added, i);
      shortened |= added.size() < intervals.size();
      expect_union(united(added), covered(intervals));
    }
  }
  EXPECT_TRUE(shortened);
}

TEST(Intervals, OfARunEndWhereAnyMemberDoes) {
  const Group both = Group::first(2);
  const Interval first{Seconds(0), Seconds(2)};
  for (const std::size_t apart : {0, 1}) {
    GpuIntervals lists(2);
    IntervalRun run;
    run.add(lists, both, {first, first});
    std::vector<Interval> next(2, {Seconds(2), Seconds(3)});
    next[apart] = {Seconds(5), Seconds(6)};
    run.add(lists, both, next);
    run.settle(lists);
    EXPECT_EQ(lists[apart], (std::vector<Interval>{first, next[apart]}));
    EXPECT_EQ(lists[1 - apart], (std::vector<Interval>{{Seconds(0), Seconds(3)}}));
  }
}

TEST(Intervals, OfTwoStreamsThatTakeTurnsAreTwo) {
  std::vector<Interval> list;
  for (int i = 0; i < 5; ++i) {
    add_interval(list, {Seconds(i), Seconds(i + 1)});
    add_interval(list, {Seconds(i + 100), Seconds(i + 101)});
  }
  EXPECT_EQ(list, (std::vector<Interval>{{Seconds(0), Seconds(5)}, {Seconds(100), Seconds(105)}}));
}

TEST(Intervals, ThatBeginBeforeTheLastAreKeptApart) {
  std::vector<Interval> list;
  add_interval(list, {Seconds(4), Seconds(6)});
  add_interval(list, {Seconds(6), Seconds(7)});  // touches
  add_interval(list, {Seconds(5), Seconds(6)});  // within
  add_interval(list, {Seconds(1), Seconds(5)});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].end, Seconds(7));
  EXPECT_EQ(list[1].start, Seconds(1));
}

}  // namespace
}  // namespace moesim::test
