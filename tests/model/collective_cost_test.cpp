// SPDX-License-Identifier: Apache-2.0
#include "sim/model/collective_cost.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/plan/exchange_time.h"
#include "sim/topology/reader.h"
#include "tests/model/hiermoe_lines.h"

namespace moesim {
namespace {

TEST(CollectiveCosts, LevelsNest) {
  EXPECT_THROW((Nesting{8, {1, 2, 2}}.check()), Error);
  EXPECT_THROW((Nesting{8, {1, 3}}.check()), Error);
  EXPECT_THROW((Nesting{8, {2, 4}}.check()), Error);
  EXPECT_THROW((Nesting{8, {}}.check()), Error);
  EXPECT_THROW((Nesting{0, {1}}.check()), Error);
  EXPECT_NO_THROW((Nesting{1, {1}}.check()));
  EXPECT_NO_THROW((Nesting{8, {1, 2, 8}}.check()));
}

// 10 us and 1 GB/s per rank, local data free: of n bytes (m - 1) / m leave a rank of m.
TEST(CollectiveCosts, FitRecoversALine) {
  std::vector<int> ranks;
  const auto time = [&](const CommunicatorTraffic& communicators) {
    std::int64_t busiest = 0;
    int members = 0;
    for (const ByteMatrix& traffic : communicators) {
      for (int s = 0; s < traffic.ranks(); ++s) {
        std::int64_t sent = 0;
        for (const auto& entry : traffic.row(GpuId(s))) {
          if (entry.to != GpuId(s)) sent += traffic.bytes(entry).value;
        }
        members += traffic.row(GpuId(s)).empty() ? 0 : 1;
        busiest = std::max(busiest, sent);
      }
    }
    ranks.push_back(members);
    return Seconds(10e-6 + static_cast<double>(busiest) * 1e-9);
  };
  const CollectiveCosts costs = fit_collective_costs({12, {1, 2, 6}}, 2, time);
  EXPECT_THAT(ranks, testing::Each(24));  // every rank is in one communicator
  const auto expect = [](const AlphaBeta& line, int members) {
    EXPECT_NEAR(line.alpha.value, 10e-6, 1e-12);
    EXPECT_NEAR(line.seconds_per_byte, 1e-9 * (members - 1) / members, 1e-18);
  };
  expect(costs.flat, 12);
  expect(costs.inter[0], 2);
  expect(costs.intra[0], 6);
  expect(costs.inter[1], 3);
  expect(costs.intra[1], 2);
}

// The topology was made from the published lines: docs/results/hiermoe.md lists what is left.
TEST(CollectiveCosts, FitOfTheTestbedTopologyGivesThePublishedLines) {
  const auto file = read_topology(data_file("topologies", "hiermoe-a6000"));
  const CollectiveCosts published = hiermoe_lines();
  const CollectiveCosts fitted =
      fit_collective_costs(published.nesting, 1, [&](const CommunicatorTraffic& communicators) {
        std::vector<ExchangePrice> together;
        for (const ByteMatrix& m : communicators) together.push_back(price(file.topology, m));
        return std::ranges::max(shared_times(together));
      });
  std::ifstream stream(MOESIM_ROOT "/docs/results/hiermoe.md");
  const std::string page(std::istreambuf_iterator<char>(stream), {});
  const auto compare = [&](const std::string& name, const AlphaBeta& found,
                           const AlphaBeta& wanted) {
    EXPECT_NEAR(found.seconds_per_byte / wanted.seconds_per_byte, 1, 0.01) << name;
    EXPECT_NEAR(found.alpha.value, wanted.alpha.value, 0.115e-3) << name;
    EXPECT_THAT(page, testing::HasSubstr(fmt::format(
                          "| {} | {:.3f} | {:.3f} | {:.3g} | {:.3g} |\n", name,
                          wanted.alpha.value * 1e3, found.alpha.value * 1e3,
                          wanted.seconds_per_byte * 1e3, found.seconds_per_byte * 1e3)));
  };
  compare("flat", fitted.flat, published.flat);
  for (std::size_t i = 0; i < 3; ++i) {
    compare(fmt::format("Inter-level-{}", i + 1), fitted.inter[i], published.inter[i]);
    compare(fmt::format("Intra-level-{}", i + 1), fitted.intra[i], published.intra[i]);
  }
}

}  // namespace
}  // namespace moesim
