// SPDX-License-Identifier: Apache-2.0
// Links that hold no flow back: by hand, and on random routes by the rates without them.
#include <gtest/gtest.h>

#include <random>

#include "sim/engine/max_min.h"
#include "sim/engine/max_min_carrier.h"

namespace moesim::test {
namespace {

using Routes = std::vector<std::vector<LinkId>>;

Routes needed(NeededHops& hops, const Routes& routes) {
  for (const auto& route : routes) hops.add_route(route);
  Routes left;
  hops.take_routes(
      [&](std::span<const LinkId> links) { left.emplace_back(links.begin(), links.end()); });
  return left;
}

Routes routes_of(std::initializer_list<std::initializer_list<int>> lists) {
  Routes routes;
  for (const auto& list : lists) routes.emplace_back(list.begin(), list.end());
  return routes;
}

TEST(NeededHops, LeaveOutWhatIsAlwaysBehindANarrowerLink) {
  NeededHops hops;
  for (const double bandwidth : {64.0, 50.0, 50.0, 64.0}) {
    hops.add_link(BytesPerSecond(bandwidth));
  }
  // All that goes over links 0 and 1 goes over 2, which others use, too; 3 is used by itself.
  EXPECT_EQ(needed(hops, routes_of({{0, 1, 2, 3}, {3}, {2}, {0, 1, 2}})),
            routes_of({{2, 3}, {3}, {2}, {2}}));
}

TEST(NeededHops, KeepTheFirstOfEqualLinksThatAreAlwaysTogether) {
  NeededHops hops;
  for (int l = 0; l < 3; ++l) hops.add_link(BytesPerSecond(50));
  EXPECT_EQ(needed(hops, routes_of({{2, 1}, {1, 2, 0}, {0}})), routes_of({{1}, {1, 0}, {0}}));
}

TEST(NeededHops, KeepLinksThatChange) {
  NeededHops hops;
  hops.add_changing_link();
  hops.add_link(BytesPerSecond(10));
  hops.add_link(BytesPerSecond(20));
  EXPECT_EQ(needed(hops, routes_of({{0, 1, 2}, {0}})), routes_of({{0, 1}, {0}}));
}

std::vector<double> rates_over(const std::vector<double>& bandwidths, const Routes& routes) {
  MaxMin rates;
  for (const double bandwidth : bandwidths) rates.add_link(BytesPerSecond(bandwidth));
  std::vector<MaxMin::Flow> flows;
  for (const auto& route : routes) {
    flows.push_back(rates.start(rates.add_route(route), Bytes(1000), Seconds(0), Seconds(0)));
  }
  rates.settle(Seconds(0));
  std::vector<double> result;
  for (const MaxMin::Flow flow : flows) result.push_back(rates.rate(flow).value);
  return result;
}

/// Pairs of ports, each behind a lane as wide or wider, some of them over a narrow trunk.
TEST(NeededHops, RatesAreWhatTheyAreOverAllLinks) {
  std::mt19937 random(7);
  std::size_t all = 0, left_over = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> bandwidths;
    NeededHops hops;
    const int ports = 2 + static_cast<int>(random() % 4);
    for (int l = 0; l < 4 * ports + 1; ++l) {
      bandwidths.push_back(static_cast<double>(5 * (1 + random() % 3)));
      hops.add_link(BytesPerSecond(bandwidths.back()));
    }
    Routes routes;
    for (int f = 0; f < 12; ++f) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(ports));
      const int to = static_cast<int>(random() % static_cast<unsigned>(ports));
      routes.push_back({LinkId(4 * from), LinkId(4 * from + 1)});
      if (random() % 3 == 0) routes.back().emplace_back(4 * ports);
      routes.back().emplace_back(4 * to + 2);
      if (random() % 4 > 0) routes.back().emplace_back(4 * to + 3);
    }
    const Routes fewer = needed(hops, routes);
    for (const auto& route : routes) all += route.size();
    for (const auto& route : fewer) left_over += route.size();
    const auto expected = rates_over(bandwidths, routes), found = rates_over(bandwidths, fewer);
    for (std::size_t f = 0; f < routes.size(); ++f) {
      EXPECT_NEAR(found[f], expected[f], 1e-12 * expected[f]) << "flow " << f << " of " << trial;
    }
  }
  EXPECT_LT(left_over, all * 3 / 4);
}

}  // namespace
}  // namespace moesim::test
