// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/aurora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

ByteMatrix matrix(int ranks, const std::vector<std::int64_t>& bytes) {
  return ByteMatrix::from_dense(ranks, bytes);
}

/// Checks that rounds move exactly the traffic, without two sends or receipts of one GPU at once.
void expect_valid(const std::vector<SendRound>& rounds, const ByteMatrix& traffic) {
  std::map<std::pair<GpuId, GpuId>, Bytes> moved;
  Bytes length(0);
  for (const SendRound& round : rounds) {
    std::set<GpuId> senders, receivers;
    for (const auto& send : round.sends) {
      EXPECT_TRUE(senders.insert(send.from).second);
      EXPECT_TRUE(receivers.insert(send.to).second);
      EXPECT_NE(send.from, send.to);
      EXPECT_GT(send.bytes, Bytes(0));
      EXPECT_LE(send.bytes, round.length);
      moved[{send.from, send.to}] += send.bytes;
    }
    length += round.length;
  }
  EXPECT_EQ(length, busiest_port(traffic));
  for (int i = 0; i < traffic.ranks(); ++i) {
    for (int j = 0; j < traffic.ranks(); ++j) {
      if (i == j) continue;
      const Bytes sent = moved[{GpuId(i), GpuId(j)}];
      EXPECT_EQ(sent, traffic.at(GpuId(i), GpuId(j))) << i << " to " << j;
    }
  }
}

TEST(AuroraTest, BoundAndRoundsOfThePublishedExample) {
  const ByteMatrix d = matrix(3, {0, 2, 1, 1, 0, 3, 2, 1, 0});
  EXPECT_EQ(busiest_port(d), Bytes(4));
  EXPECT_DOUBLE_EQ(aurora_lower_bound(d, std::vector(3, BytesPerSecond(1))).value, 4);
  expect_valid(peel_rounds(d), d);
}

TEST(AuroraTest, SlowGpusStretchTheirRowsAndColumns) {
  const ByteMatrix d = matrix(3, {0, 2, 1, 1, 0, 3, 2, 1, 0});  // rows 3, 4, 3; columns 3, 3, 4
  const std::vector<BytesPerSecond> bandwidth = {BytesPerSecond(0.5), BytesPerSecond(4),
                                                 BytesPerSecond(1)};
  EXPECT_DOUBLE_EQ(aurora_lower_bound(d, bandwidth).value, 6);
  EXPECT_THROW(aurora_lower_bound(d, std::vector(2, BytesPerSecond(1))), Error);
}

TEST(AuroraTest, RoundsAddUpToTheBoundForAnyTraffic) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const int n = 1 + static_cast<int>(random.below(9));
    std::vector<std::int64_t> bytes;
    for (int i = 0; i < n * n; ++i) {
      bytes.push_back(random.below(3) == 0 ? 0 : 1 + random.below(1'000'000));
    }
    const ByteMatrix d = matrix(n, bytes);  // its diagonal must not matter
    const auto rounds = peel_rounds(d);
    expect_valid(rounds, d);
    EXPECT_LE(rounds.size(), static_cast<std::size_t>(2 * n * n));
  }
}

TEST(AuroraTest, EvenTrafficTakesOneRoundPerPeer) {
  std::vector<std::int64_t> bytes(64, 5);
  for (std::size_t i = 0; i < 8; ++i) bytes[i * 9] = 0;
  const ByteMatrix d = matrix(8, bytes);
  const auto rounds = peel_rounds(d);
  expect_valid(rounds, d);
  EXPECT_EQ(rounds.size(), 7u);
}

TEST(AuroraTest, NothingToSendTakesNoRound) {
  const ByteMatrix d = matrix(2, {7, 0, 0, 9});
  EXPECT_EQ(busiest_port(d), Bytes(0));
  EXPECT_TRUE(peel_rounds(d).empty());
}

TEST(AuroraTest, FastGpusTakeTheMostLoadedExperts) {
  const std::vector<std::int64_t> loads = {1, 9, 4, 6};
  const std::vector<double> speeds = {40, 100};
  EXPECT_THAT(place_by_speed(loads, speeds), ElementsAre(GpuId(0), GpuId(1), GpuId(0), GpuId(1)));
  const std::vector<double> equal = {1, 1};
  EXPECT_THAT(place_by_speed(loads, equal), ElementsAre(GpuId(1), GpuId(0), GpuId(1), GpuId(0)));
  const std::vector<double> three = {1, 1, 1};
  EXPECT_THROW(place_by_speed(loads, three), Error);
}

}  // namespace
}  // namespace moesim
