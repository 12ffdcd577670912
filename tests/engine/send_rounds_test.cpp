// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/send_rounds.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

std::int64_t draw(std::mt19937& random, unsigned below) {
  return static_cast<std::int64_t>(random() % below);
}

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

TEST(SendRounds, BoundAndRoundsOfThePublishedExample) {
  const ByteMatrix d = matrix(3, {0, 2, 1, 1, 0, 3, 2, 1, 0});
  EXPECT_EQ(busiest_port(d), Bytes(4));
  expect_valid(peel_rounds(d), d);
}

TEST(SendRounds, RoundsAddUpToTheBoundForAnyTraffic) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int n = 1 + static_cast<int>(random() % 9);
    std::vector<std::int64_t> bytes;
    for (int i = 0; i < n * n; ++i) {
      bytes.push_back(random() % 3 == 0 ? 0 : 1 + draw(random, 1'000'000));
    }
    const ByteMatrix d = matrix(n, bytes);  // its diagonal must not matter
    const auto rounds = peel_rounds(d);
    expect_valid(rounds, d);
    EXPECT_LE(rounds.size(), static_cast<std::size_t>(2 * n * n));
  }
}

TEST(SendRounds, EvenTrafficTakesOneRoundPerPeer) {
  std::vector<std::int64_t> bytes(64, 5);
  for (std::size_t i = 0; i < 8; ++i) bytes[i * 9] = 0;
  const ByteMatrix d = matrix(8, bytes);
  const auto rounds = peel_rounds(d);
  expect_valid(rounds, d);
  EXPECT_EQ(rounds.size(), 7u);
}

TEST(SendRounds, NothingToSendTakesNoRound) {
  const ByteMatrix d = matrix(2, {7, 0, 0, 9});
  EXPECT_EQ(busiest_port(d), Bytes(0));
  EXPECT_TRUE(peel_rounds(d).empty());
}

/// Times of the whole exchange, and of its rounds one after the other, on a star.
std::pair<Seconds, Seconds> times_of(const BackendCase& backend, const ByteMatrix& traffic) {
  const int gpus = traffic.ranks();
  const Topology topology = star(gpus);
  const auto run = [&](const PlanWriter& w) {
    return backend.make(topology, test_gpus(gpus))->run(w.plan()).makespan;
  };
  PlanWriter whole(gpus), rounds(gpus);
  whole.traffic(all_of(gpus), traffic);
  std::vector<OpId> before;
  for (const SendRound& round : peel_rounds(traffic)) {
    std::vector<Transfer> transfers;
    for (const auto& [from, to, bytes] : round.sends) {
      transfers.push_back({from.value, to.value, bytes.value});
    }
    before = {rounds.exchange(all_of(gpus), transfers, before)};
  }
  return {run(whole), run(rounds)};
}

// Sums of permutations: all ports are equally busy, so nothing is padded and every round is full.
TEST(SendRounds, OfEquallyBusyPortsReachTheLeastTime) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    const std::size_t n = 3 + random() % 5;
    std::vector<std::int64_t> bytes(n * n);
    for (std::size_t shift = 1; shift < n; ++shift) {
      const std::int64_t each = 1'000'000 * (1 + draw(random, 50));
      for (std::size_t i = 0; i < n; ++i) bytes[i * n + (i + shift) % n] += each;
    }
    const ByteMatrix traffic = matrix(static_cast<int>(n), bytes);
    const double least = busiest_port(traffic) / BytesPerSecond(50e9) / Seconds(1);
    const double latencies = 5e-6 * static_cast<double>(peel_rounds(traffic).size());
    for (const BackendCase& backend : {port_case, flow_case, analytic_case}) {
      const auto [whole, rounds] = times_of(backend, traffic);
      EXPECT_NEAR(rounds.value, least + latencies, 1e-6 * least) << backend.name;
      EXPECT_GE(whole.value, (least + 5e-6) * (1 - 1e-6)) << backend.name;
    }
  }
}

TEST(SendRounds, NoExchangeBeatsItsBusiestPort) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> bytes;
    for (int i = 0; i < 36; ++i) bytes.push_back(random() % 3 == 0 ? 0 : draw(random, 50'000'000));
    const ByteMatrix traffic = matrix(6, bytes);
    const double least = busiest_port(traffic) / BytesPerSecond(50e9) / Seconds(1);
    for (const BackendCase& backend : {port_case, flow_case, analytic_case}) {
      const auto [whole, rounds] = times_of(backend, traffic);
      EXPECT_GE(whole.value, (least + 5e-6) * (1 - 1e-6)) << backend.name;
      EXPECT_LE(rounds.value, whole.value + 36 * 2 * 5e-6) << backend.name;
    }
  }
}

}  // namespace
}  // namespace moesim::test
