// SPDX-License-Identifier: Apache-2.0
// Rates by hand and by definition: a flow has a bottleneck, which is full and gives nobody more.
#include "sim/engine/max_min.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace moesim::test {
namespace {

/// Runs flows to their ends and keeps when each ended.
class Rates {
 public:
  explicit Rates(const std::vector<double>& bandwidths) {
    for (const double bandwidth : bandwidths) max_min.add_link(BytesPerSecond(bandwidth));
  }
  void start(double now, const std::vector<int>& links, std::int64_t bytes) {
    std::vector<LinkId> route(links.begin(), links.end());
    const auto id = static_cast<std::size_t>(
        max_min.start(max_min.add_route(route), Bytes(bytes), Seconds(0), Seconds(now)));
    if (id >= number_.size()) number_.resize(id + 1);
    number_[id] = ends.size();
    ends.push_back(-1);
    settle(now);
  }
  /// Until a time, or to the end.
  void run(double until = 1e9) {
    while (!batches_.empty()) {
      const auto next = std::ranges::min_element(batches_, {}, &MaxMin::Batch::time);
      if (next->time.value > until) return;
      const MaxMin::Batch batch = *next;
      batches_.erase(next);
      const auto left = max_min.leave(batch);
      for (const auto& [time, flow] : left) {
        ends[number_[static_cast<std::size_t>(flow)]] = time.value;
      }
      if (!left.empty()) settle(batch.time.value);
    }
  }
  void settle(double now) {
    for (auto& batch : max_min.settle(Seconds(now))) batches_.push_back(std::move(batch));
  }

  MaxMin max_min;
  std::vector<double> ends;  // [flow in the order of their starts]

 private:
  std::vector<MaxMin::Batch> batches_;
  std::vector<std::size_t> number_;  // [id]
};

using testing::DoubleEq;
using testing::ElementsAre;

TEST(MaxMin, SharesALinkEvenlyAndGivesOnWhatIsFree) {
  Rates rates({10});
  rates.start(0, {0}, 10);  // 5/s until 2 s
  rates.start(0, {0}, 30);  // 10 by then, the rest at 10/s
  rates.run();
  EXPECT_THAT(rates.ends, ElementsAre(DoubleEq(2), DoubleEq(4)));
}

TEST(MaxMin, LeavesToOthersWhatABottleneckElsewhereKeepsAFlowFrom) {
  Rates rates({10, 2});
  rates.start(0, {0, 1}, 4);  // 2/s
  rates.start(0, {0}, 32);    // 8/s until 2 s, then 10/s
  rates.run();
  EXPECT_THAT(rates.ends, ElementsAre(DoubleEq(2), DoubleEq(3.6)));
}

TEST(MaxMin, SharesFromWhenAFlowComes) {
  Rates rates({10});
  rates.start(0, {0}, 40);
  rates.run(2);
  rates.start(2, {0}, 10);  // 5/s each until 4 s
  rates.run();
  EXPECT_THAT(rates.ends, ElementsAre(DoubleEq(5), DoubleEq(4)));
}

TEST(MaxMin, LeavesSetsOfFlowsAloneThatShareNothing) {
  Rates rates({10, 10});
  rates.start(0, {0}, 40);
  rates.start(1, {1}, 10);
  const auto batches = rates.max_min.settle(Seconds(1.5));
  EXPECT_TRUE(batches.empty());
  rates.run();
  EXPECT_THAT(rates.ends, ElementsAre(DoubleEq(4), DoubleEq(2)));
}

TEST(MaxMin, LinksMayYieldLessToManyFlowsAndChange) {
  Rates rates({});
  double part = 1;
  rates.max_min.add_link(
      [&part](int flows) { return BytesPerSecond(part * (flows > 1 ? 8 : 10)); });
  rates.start(0, {0}, 20);
  rates.start(0, {0}, 8);  // 4/s each until 2 s, then 10/s
  rates.run(2.5);          // 7 left
  part = 0.5;
  rates.max_min.change(LinkId(0));
  rates.settle(2.5);
  rates.run();
  EXPECT_THAT(rates.ends, ElementsAre(DoubleEq(2.5 + 7 / 5.0), DoubleEq(2)));
}

/// 1,024 flows of a link of 1,024 B/s: two end at 100 and 102 s, the others have 1,000 B.
class Window : public testing::Test {
 protected:
  Window() {
    rates.add_link(BytesPerSecond(1024));
    const int route = rates.add_route(std::vector{LinkId(0)});
    for (int f = 0; f < 1024; ++f) {
      rates.start(route, Bytes(f < 2 ? 100 + 2 * f : 1000), Seconds(3), Seconds(0));
    }
    batches = rates.settle(Seconds(0));
  }
  MaxMin rates;
  std::vector<MaxMin::Batch> batches;
};

TEST_F(Window, RatesChangeInItsMiddleAndFlowsEndWhenTheyDo) {
  ASSERT_EQ(batches.size(), 1U);
  const MaxMin::Batch& batch = batches[0];
  EXPECT_NEAR(batch.time.value, 101, 1e-9);
  ASSERT_EQ(batch.endings.size(), 2U);
  EXPECT_NEAR(batch.endings[0].time.value, 100, 1e-9);
  EXPECT_NEAR(batch.endings[1].time.value, 102, 1e-9);
  EXPECT_TRUE(rates.end(batch, 0));
  const auto late = rates.leave(batch);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].flow, 1);
}

TEST_F(Window, WhatOneLeavesUnusedIsWhatTheOtherUsesTooLong) {
  ASSERT_TRUE(rates.end(batches[0], 0));
  rates.leave(batches[0]);
  const auto last = rates.settle(Seconds(101));
  ASSERT_EQ(last.size(), 1U);
  // All bytes at the full bandwidth.
  EXPECT_NEAR(last[0].time.value, (100 + 102 + 1022 * 1000) / 1024.0, 1e-6);
}

TEST_F(Window, ABatchIsOverOnceRatesAreWorkedOutAnew) {
  rates.change(LinkId(0));
  const auto again = rates.settle(Seconds(50));
  EXPECT_FALSE(rates.end(batches[0], 0));
  EXPECT_TRUE(rates.leave(batches[0]).empty());
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(rates.end(again[0], 0));
}

/// Two links of 4,096 B/s, one of them busy with 4,096 flows; one more flow over both comes.
TEST(MaxMin, AFlowThatWaitsForItsRateEndsAsIfItHadNotWaited) {
  MaxMin rates;
  rates.add_link(BytesPerSecond(4096));
  rates.add_link(BytesPerSecond(4096));
  const int busy = rates.add_route(std::vector{LinkId(0)});
  const int both = rates.add_route(std::vector{LinkId(0), LinkId(1)});
  for (int f = 0; f < 4095; ++f) rates.start(busy, Bytes(1000), Seconds(1), Seconds(0));
  ASSERT_EQ(rates.settle(Seconds(0)).size(), 1U);
  const MaxMin::Flow late = rates.start(both, Bytes(500), Seconds(1), Seconds(0.5));
  EXPECT_GT(rates.due(Seconds(0.5)).value, 0.5);
  const auto batches = rates.settle(Seconds(2));
  ASSERT_EQ(batches.size(), 1U);
  ASSERT_EQ(batches[0].endings[0].flow, late);
  EXPECT_NEAR(batches[0].endings[0].time.value, 0.5 + 500, 1e-9);
}

/// So many flows of a link of as many B/s, which may wait for 1 s and do not end soon.
MaxMin many_flows(int flows) {
  MaxMin rates;
  rates.add_link(BytesPerSecond(flows));
  const int route = rates.add_route(std::vector{LinkId(0)});
  for (int f = 0; f < flows; ++f) rates.start(route, Bytes(100'000), Seconds(1), Seconds(0));
  rates.settle(Seconds(0));
  rates.change(LinkId(0));
  rates.settle(Seconds(10));
  rates.start(route, Bytes(100'000), Seconds(1), Seconds(10.5));
  return rates;
}

TEST(MaxMin, AFlowWaitsForHalfOfAWidenedWindowSinceRatesWereWorkedOut) {
  EXPECT_EQ(many_flows(1536).due(Seconds(10.5)).value, 10 + 4 / 2.0);
  EXPECT_EQ(many_flows(384).due(Seconds(10.25)).value, 10.25);  // its window is as it was
}

TEST(MaxMin, AFlowOfNothingDoesNotKeepTheNextFromItsShare) {
  Rates rates({10});
  const int route = rates.max_min.add_route(std::vector{LinkId(0)});
  rates.max_min.start(route, Bytes(0), Seconds(0), Seconds(1));
  const MaxMin::Flow second = rates.max_min.start(route, Bytes(20), Seconds(0), Seconds(1));
  // 5/s as from 1 s on, and 10/s from 2 s on.
  const auto nothing = rates.max_min.settle(Seconds(2));
  ASSERT_EQ(rates.max_min.leave(nothing.at(0)).size(), 1U);
  const auto rest = rates.max_min.settle(Seconds(2));
  ASSERT_EQ(rest.at(0).endings.at(0).flow, second);
  EXPECT_DOUBLE_EQ(rest.at(0).time.value, 2 + 15 / 10.0);
}

/// A flow over links 0 and 1 ends at 11 s, which leaves two sets. One that has come at 10.5 s on
/// link 0 gets 6/s at 12 s: 9 bytes for which link 0 had room for 2 s at 3/s.
TEST(MaxMin, AFlowThatHasWaitedPaysForWhatHadNoRoomSinceItsSetWasWhole) {
  Rates rates({10, 6, 4});
  rates.start(0, {0, 2}, 1000);  // 4/s
  rates.start(0, {1}, 1000);     // 3/s
  rates.start(0, {0, 1}, 33);    // 3/s
  rates.max_min.change(LinkId(0));
  auto whole = rates.max_min.settle(Seconds(10));
  ASSERT_DOUBLE_EQ(whole.at(0).time.value, 11);
  const int route = rates.max_min.add_route(std::vector{LinkId(0)});
  const MaxMin::Flow late = rates.max_min.start(route, Bytes(60), Seconds(0), Seconds(10.5));
  rates.max_min.leave(whole[0]);
  ASSERT_EQ(rates.max_min.settle(Seconds(12)).size(), 2U);
  EXPECT_DOUBLE_EQ(rates.max_min.rate(late).value, 6);
  rates.max_min.change(LinkId(0));
  const auto again = rates.max_min.settle(Seconds(13));
  ASSERT_EQ(again.at(0).endings.at(0).flow, late);
  EXPECT_DOUBLE_EQ(again.at(0).time.value, 10.5 + (60 + 3) / 6.0);
}

/// Of more links than a flow keeps near it.
TEST(MaxMin, RoutesMayBeLong) {
  std::vector<double> bandwidths(12, 10);
  bandwidths.back() = 3;
  Rates rates(bandwidths);
  std::vector<int> all(12);
  for (int link = 0; link < 12; ++link) all[static_cast<std::size_t>(link)] = link;
  rates.start(0, all, 12);  // 3/s until 4 s
  rates.start(0, {5}, 28);  // 7/s until then
  rates.run();
  EXPECT_THAT(rates.ends, ElementsAre(DoubleEq(4), DoubleEq(4)));
}

/// Of flows that all start at once: the definition, filled step by step over all links.
std::vector<double> rates_by_definition(const std::vector<double>& bandwidths,
                                        const std::vector<std::vector<int>>& routes) {
  std::vector<double> rates(routes.size(), -1);
  const auto on = [&](std::size_t flow, std::size_t link) {
    return std::ranges::count(routes[flow], static_cast<int>(link)) > 0;
  };
  while (std::ranges::count(rates, -1) > 0) {
    double least = 1e300;
    std::size_t filled = 0;
    for (std::size_t link = 0; link < bandwidths.size(); ++link) {
      double left = bandwidths[link];
      int open = 0;
      for (std::size_t f = 0; f < routes.size(); ++f) {
        if (!on(f, link)) continue;
        if (rates[f] < 0)
          ++open;
        else
          left -= rates[f];
      }
      if (open > 0 && left / open < least) least = left / open, filled = link;
    }
    for (std::size_t f = 0; f < routes.size(); ++f) {
      if (rates[f] < 0 && on(f, filled)) rates[f] = least;
    }
  }
  return rates;
}

TEST(MaxMin, FillsAsTheDefinitionDoes) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  for (int i = 0; i < 50; ++i) {
    std::vector<double> bandwidths;
    for (int link = 0; link < 12; ++link) bandwidths.push_back(1 + below(20));
    std::vector<std::vector<int>> routes;
    for (int f = 0; f < 30; ++f) {
      std::vector<int> route = {below(12), below(12), below(12)};
      std::ranges::sort(route);
      route.erase(std::unique(route.begin(), route.end()), route.end());
      routes.push_back(route);
    }
    const auto expected = rates_by_definition(bandwidths, routes);
    MaxMin rates;
    for (const double bandwidth : bandwidths) rates.add_link(BytesPerSecond(bandwidth));
    std::vector<MaxMin::Flow> flows;
    for (const auto& route : routes) {
      const std::vector<LinkId> links(route.begin(), route.end());
      flows.push_back(rates.start(rates.add_route(links), Bytes(1000), Seconds(0), Seconds(0)));
    }
    rates.settle(Seconds(0));
    for (std::size_t f = 0; f < flows.size(); ++f) {
      EXPECT_NEAR(rates.rate(flows[f]).value / expected[f], 1, 1e-12) << i;
    }
  }
}

}  // namespace
}  // namespace moesim::test
