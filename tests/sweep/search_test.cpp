// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

/// Candidates whose exact times are known: rough times, an offset per mechanism and noise.
struct Grid {
  Grid(std::uint64_t seed, std::size_t count, double offset, double noise) {
    Random random(seed);
    std::vector<double> offsets;
    for (int m = 0; m < 6; ++m) offsets.push_back(offset * random.normal());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t mechanism = i % offsets.size();
      const double rough = std::exp(0.4 * random.normal());
      candidates.push_back({rough, std::string(1, static_cast<char>('a' + mechanism))});
      exact.push_back(rough * std::exp(offsets[mechanism] + noise * random.normal()));
    }
  }
  SearchEnd search(std::int64_t most, double sure, std::int64_t ranked = 0) const {
    const auto measure = [this](const std::vector<std::size_t>& chosen) {
      std::vector<std::optional<double>> times;
      for (const std::size_t i : chosen) times.push_back(exact[i]);
      return times;
    };
    SearchOptions options;
    options.most = most;
    options.batch = 2;
    options.sure = sure;
    options.ranked = ranked;
    return moesim::search(candidates, measure, options);
  }
  bool found(const SearchEnd& end) const {
    double best = INFINITY;
    for (const double time : end.exact) best = std::isnan(time) ? best : std::min(best, time);
    return best == std::ranges::min(exact);
  }
  std::vector<SearchCandidate> candidates;
  std::vector<double> exact;
};

TEST(Search, FindsTheBestWithAFifthOfTheRuns) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Grid grid(seed, 400, 0.2, 0.03);
    const SearchEnd end = grid.search(80, 0.98);
    EXPECT_LE(end.runs, 80);
    EXPECT_TRUE(grid.found(end)) << seed << ": sure to " << end.sure;
  }
}

TEST(Search, IsAsSureAsItIsRight) {
  double sure = 0, right = 0;
  constexpr int grids = 400;
  for (std::uint64_t seed = 1; seed <= grids; ++seed) {
    const Grid grid(seed, 40, 0.2, 0.1);
    const SearchEnd end = grid.search(8, 1);
    sure += end.sure;
    right += grid.found(end) ? 1 : 0;
  }
  EXPECT_NEAR(sure / grids, right / grids, 0.08);
  EXPECT_GT(right / grids, 0.5);
}

TEST(Search, LeavesOutWhatCannotBe) {
  Grid grid(1, 40, 0.2, 0.05);
  grid.candidates[3].rough = NAN;
  grid.exact[5] = NAN;
  const SearchEnd end = grid.search(40, 2);
  EXPECT_TRUE(std::isnan(end.exact[3]));
  EXPECT_EQ(end.runs, 39) << "one cannot be, which its rough time says";
  EXPECT_DOUBLE_EQ(end.sure, 1) << "nothing is left";
}

/// Bounds 5 % below the exact times.
Grid bounded(std::uint64_t seed) {
  Grid grid(seed, 400, 0.2, 0.1);
  for (std::size_t i = 0; i < grid.exact.size(); ++i) {
    grid.candidates[i].least = 0.95 * grid.exact[i];
  }
  return grid;
}

TEST(Search, BoundsMakeItCertain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Grid grid = bounded(seed);
    const SearchEnd end = grid.search(400, 1);
    EXPECT_TRUE(grid.found(end)) << seed;
    EXPECT_EQ(end.sure, 1);
    EXPECT_EQ(end.runs + end.beaten, 400) << "nobody who may be the best is left";
    EXPECT_LT(end.runs, 80);
  }
}

TEST(Search, SimulatesNobodyWhoIsBeaten) {
  const Grid grid = bounded(3);
  const SearchEnd end = grid.search(400, 2);
  double best = INFINITY;
  for (const double time : end.exact) best = std::isnan(time) ? best : std::min(best, time);
  for (std::size_t i = 0; i < grid.exact.size(); ++i) {
    if (!std::isnan(end.exact[i])) continue;
    EXPECT_GE(grid.candidates[i].least, best);
  }
}

TEST(Search, RanksAFewThoughTheBestIsCertain) {
  Grid grid(1, 40, 0, 0);
  for (std::size_t i = 0; i < grid.exact.size(); ++i) grid.candidates[i].least = grid.exact[i];
  EXPECT_EQ(grid.search(40, 0.98).runs, 6) << "the best of every mechanism";
  EXPECT_EQ(grid.search(40, 0.98, 10).runs, 10);
}

/// Two of one mechanism, a third of another, whose exact times are twice as long as their rough
/// ones: after the first of each, log(exact / rough) is log 2 without any spread but the prior's.
TEST(Search, ChancesAreThoseOfANormalOffset) {
  const std::vector<SearchCandidate> candidates = {{1, "a"}, {1.1, "a"}, {1.05, "b"}};
  const auto twice = [&](const std::vector<std::size_t>& chosen) {
    std::vector<std::optional<double>> times;
    for (const std::size_t i : chosen) times.push_back(2 * candidates[i].rough);
    return times;
  };
  SearchOptions options{2};
  const SearchEnd end = search(candidates, twice, options);
  EXPECT_EQ(end.runs, 2);
  EXPECT_EQ(end.exact[0], 2);
  EXPECT_EQ(end.exact[2], 2.1);
  EXPECT_TRUE(std::isnan(end.exact[1]));
  // Two measured ones and a prior of two with a spread of 0.1; the mechanism has one of its own.
  const double spread = std::sqrt(2 * 0.01 / (2 + 2)) * std::sqrt(1 + 1 / (1 + 1.0));
  const double z = (std::log(2 / 1.1) - std::log(2)) / spread;
  EXPECT_NEAR(end.sure, 0.5 * std::erfc(z / std::sqrt(2.0)), 1e-12);
  EXPECT_EQ(end.beaten, 0);
}

/// The same with a bound below the best time: as likely as it is among times above the bound.
TEST(Search, ChancesAreThoseOfTimesThatCanBe) {
  const std::vector<SearchCandidate> candidates = {{1, "a"}, {1.1, "a", 1.9}, {1.05, "b"}};
  const auto twice = [&](const std::vector<std::size_t>& chosen) {
    std::vector<std::optional<double>> times;
    for (const std::size_t i : chosen) times.push_back(2 * candidates[i].rough);
    return times;
  };
  SearchOptions options{2};
  const SearchEnd end = search(candidates, twice, options);
  const double spread = std::sqrt(2 * 0.01 / (2 + 2)) * std::sqrt(1 + 1 / (1 + 1.0));
  const auto slower_than = [&](double time) {
    return 0.5 * std::erfc((std::log(time / 1.1) - std::log(2)) / spread / std::sqrt(2.0));
  };
  EXPECT_NEAR(end.sure, slower_than(2) / slower_than(1.9), 1e-12);
  EXPECT_GT(end.sure, slower_than(2) + 0.01);
  EXPECT_LT(end.sure, 1);
}

TEST(Search, RunsTheBestOfEachMechanismByRoughTime) {
  const std::vector<SearchCandidate> candidates = {{3, "a"}, {2, "a"}, {1, "b"}, {4, "c"}};
  std::vector<std::vector<std::size_t>> asked;
  const auto measure = [&](const std::vector<std::size_t>& chosen) {
    asked.push_back(chosen);
    std::vector<std::optional<double>> times;
    for (const std::size_t i : chosen) times.push_back(candidates[i].rough);
    return times;
  };
  SearchOptions options{4};
  options.sure = 2;  // never enough
  EXPECT_EQ(search(candidates, measure, options).sure, 1) << "nothing is left";
  EXPECT_EQ(asked, (std::vector<std::vector<std::size_t>>{{2, 1, 3}, {0}}));
  asked.clear();
  options.most = 2;
  EXPECT_EQ(search(candidates, measure, options).runs, 2);
  EXPECT_EQ(asked, (std::vector<std::vector<std::size_t>>{{2, 1}}));
  asked.clear();
  options.stop = [] { return true; };
  EXPECT_EQ(search(candidates, measure, options).runs, 0);
  EXPECT_TRUE(asked.empty());
}

/// The first batch ends after one of its three.
TEST(Search, WhatAStopLeavesOfABatchIsNoRun) {
  const std::vector<SearchCandidate> candidates = {{1, "a"}, {1.01, "b"}, {1.02, "c"}};
  int batches = 0;
  const auto measure = [&](const std::vector<std::size_t>& chosen) {
    ++batches;
    std::vector<std::optional<double>> times(chosen.size());
    times[1] = 1.01;
    return times;
  };
  SearchOptions options{3};
  options.stop = [&] { return batches > 0; };
  const SearchEnd end = search(candidates, measure, options);
  EXPECT_EQ(end.runs, 1);
  EXPECT_TRUE(std::isnan(end.exact[0]));
  EXPECT_EQ(end.exact[1], 1.01);
  EXPECT_LT(end.sure, 0.6) << "either of the others may be faster";
  options.stop = [] { return false; };
  EXPECT_EQ(search(candidates, measure, options).runs, 1) << "a batch in part is the last";
}

/// The numbers of candidates in the order in which they are run one by one.
std::vector<std::size_t> order_of(const std::vector<SearchCandidate>& candidates,
                                  const std::vector<double>& exact, double sure) {
  std::vector<std::size_t> order;
  const auto measure = [&](const std::vector<std::size_t>& chosen) {
    order.push_back(chosen.at(0));
    return std::vector<std::optional<double>>{exact[chosen.at(0)]};
  };
  SearchOptions options{10};
  options.batch = 1;
  options.sure = sure;
  search(candidates, measure, options);
  return order;
}

TEST(Search, CertainlyFasterOnesRunByRoughTime) {
  // The first cannot be after all, so any other one is faster; the last is above 800 for certain.
  EXPECT_EQ(order_of({{1, "a"}, {2, "a"}, {3, "a", 900}}, {NAN, 2000, 1000}, 1),
            (std::vector<std::size_t>{0, 1, 2}));
}

TEST(Search, StopsAtJustTheCertaintyThatIsAskedFor) {
  const std::vector<SearchCandidate> far = {{1, "a"}, {1e9, "a"}};
  EXPECT_EQ(order_of(far, {1, 1e9}, 1), (std::vector<std::size_t>{0}));
  EXPECT_EQ(order_of(far, {1, 1e9}, 1.5), (std::vector<std::size_t>{0, 1}));
}

TEST(Search, StopsWhenItIsSureEnough) {
  const Grid grid(1, 400, 0, 0);
  EXPECT_LT(grid.search(400, 0.98).runs, 60);
}

}  // namespace
}  // namespace moesim
