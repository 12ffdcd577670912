// SPDX-License-Identifier: Apache-2.0
// Flows that come and go at random times, against the definition worked out anew at each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "sim/engine/max_min.h"

namespace moesim::test {
namespace {

struct RandomFlow {
  double start;
  std::vector<int> route;
  double bytes;
  double end = -1;
};

/// Fills the open flows step by step: those of the link with the least share first.
std::vector<double> filled(const std::vector<double>& bandwidths,
                           const std::vector<RandomFlow>& flows, const std::vector<double>& left) {
  std::vector<double> rates(flows.size(), -1), free = bandwidths;
  while (true) {
    std::vector<int> open(bandwidths.size(), 0);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (left[f] <= 0 || rates[f] >= 0) continue;
      for (const int link : flows[f].route) ++open[static_cast<std::size_t>(link)];
    }
    double least = std::numeric_limits<double>::infinity();
    int bottleneck = -1;
    for (std::size_t link = 0; link < open.size(); ++link) {
      if (open[link] == 0 || free[link] / open[link] >= least) continue;
      least = free[link] / open[link];
      bottleneck = static_cast<int>(link);
    }
    if (bottleneck < 0) return rates;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      const auto& route = flows[f].route;
      if (left[f] <= 0 || rates[f] >= 0 || std::ranges::count(route, bottleneck) == 0) continue;
      rates[f] = least;
      for (const int link : route) free[static_cast<std::size_t>(link)] -= least;
    }
  }
}

/// Their ends by definition; `flows` ascend by start.
void end_by_definition(const std::vector<double>& bandwidths, std::vector<RandomFlow>& flows) {
  std::vector<double> left(flows.size(), 0);
  double now = 0;
  for (std::size_t come = 0, gone = 0; gone < flows.size();) {
    const auto rates = filled(bandwidths, flows, left);
    double next = come < flows.size() ? flows[come].start : std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < come; ++f) {
      if (left[f] > 0) next = std::min(next, now + left[f] / rates[f]);
    }
    for (std::size_t f = 0; f < come; ++f) {
      if (left[f] <= 0) continue;
      left[f] -= rates[f] * (next - now);
      if (left[f] > 1e-9) continue;
      left[f] = 0;
      flows[f].end = next;
      ++gone;
    }
    now = next;
    if (come < flows.size() && flows[come].start <= now) {
      left[come] = flows[come].bytes;
      ++come;
    }
  }
}

/// Runs the same flows, with rates worked out when they are due; their ends.
std::vector<double> run(const std::vector<double>& bandwidths, const std::vector<RandomFlow>& flows,
                        double window) {
  MaxMin max_min;
  for (const double bandwidth : bandwidths) max_min.add_link(BytesPerSecond(bandwidth));
  std::vector<double> ends(flows.size(), -1);
  std::map<MaxMin::Flow, std::size_t> number;
  std::vector<MaxMin::Batch> batches;
  double now = 0;
  for (std::size_t come = 0; come < flows.size() || std::ranges::count(ends, -1) > 0;) {
    const double due = max_min.due(Seconds(now)).value;
    const auto first = std::ranges::min_element(batches, {}, &MaxMin::Batch::time);
    const double leaves = first == batches.end() ? 1e300 : first->time.value;
    const double comes = come < flows.size() ? flows[come].start : 1e300;
    now = std::min({due, leaves, comes});
    if (comes <= now) {
      const std::vector<LinkId> links(flows[come].route.begin(), flows[come].route.end());
      const auto bytes = Bytes(static_cast<std::int64_t>(flows[come].bytes));
      number[max_min.start(max_min.add_route(links), bytes, Seconds(window), Seconds(now))] = come;
      ++come;
    } else if (leaves <= now) {
      const MaxMin::Batch batch = *first;
      batches.erase(first);
      for (std::size_t i = 0; i < batch.endings.size(); ++i) {
        const auto& [time, flow] = batch.endings[i];
        if (time <= batch.time && max_min.end(batch, i)) ends[number.at(flow)] = time.value;
      }
      for (const auto& [time, flow] : max_min.leave(batch)) ends[number.at(flow)] = time.value;
    } else {
      for (auto& batch : max_min.settle(Seconds(now))) batches.push_back(std::move(batch));
    }
  }
  return ends;
}

class RandomFlows : public testing::TestWithParam<int> {};

TEST_P(RandomFlows, EndAsTheDefinitionSays) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  std::vector<double> bandwidths;
  for (int link = 0; link < 16; ++link) bandwidths.push_back(1 + below(20));
  std::vector<RandomFlow> flows;
  double start = 0;
  for (int f = 0; f < 60; ++f) {
    start += below(5) + 0.01 * below(100);
    std::vector<int> route;
    for (int hops = below(8) == 0 ? 12 : 1 + below(3); hops > 0; --hops) route.push_back(below(16));
    std::ranges::sort(route);
    route.erase(std::unique(route.begin(), route.end()), route.end());
    flows.push_back({start, route, 1.0 + below(60)});
  }
  end_by_definition(bandwidths, flows);
  const auto ends = run(bandwidths, flows, 0);
  for (std::size_t f = 0; f < flows.size(); ++f) EXPECT_NEAR(ends[f] / flows[f].end, 1, 1e-9) << f;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFlows, testing::Range(1, 7));

TEST(ManyFlows, KeepALinkBusyAndEndWithinTheirWindow) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  std::vector<RandomFlow> flows;
  double all = 0;
  for (int f = 0; f < 3000; ++f) {
    flows.push_back({f < 2500 ? 0 : 0.01 * (f - 2500), {0, 1 + below(4)}, 100.0 + below(1000)});
    all += flows.back().bytes;
  }
  const std::vector<double> bandwidths(5, 3000);
  const auto exact = run(bandwidths, flows, 0);
  EXPECT_NEAR(std::ranges::max(exact) / (all / 3000), 1, 1e-9);
  for (const double window : {0.5, 2.0}) {
    const auto ends = run(bandwidths, flows, window);
    // Nobody pays for what the last flows did.
    EXPECT_NEAR(std::ranges::max(ends) / (all / 3000), 1, 1.2e-4 * window) << window;
    // 3,000 flows widen a window to eight times its length.
    for (std::size_t f = 0; f < flows.size(); ++f) EXPECT_NEAR(ends[f], exact[f], 8 * window) << f;
  }
}

}  // namespace
}  // namespace moesim::test
