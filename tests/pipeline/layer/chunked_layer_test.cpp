// SPDX-License-Identifier: Apache-2.0
// Orders of chunks against closed forms, published orders and all other orders.
#include "sim/pipeline/layer/chunked_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "tests/pipeline/layer/lanes.h"

namespace moesim {
namespace {

using Costs = std::map<ChunkWork, double>;  // 0 where there is none
using enum ChunkWork;

double time_of(const std::vector<ChunkPiece>& pieces, const Costs& costs) {
  return testing::last_end(
      pieces, [](const ChunkPiece& piece) { return lane_of(piece.work); },
      [&](const ChunkPiece& piece) {
        const auto found = costs.find(piece.work);
        return found == costs.end() ? 0.0 : found->second;
      });
}

class ChunkDraws {
 public:
  double time() { return std::uniform_real_distribution<double>(0.01, 4)(random_); }
  int chunks() { return std::uniform_int_distribution<int>(1, 9)(random_); }

 private:
  std::mt19937 random_{5};
};

TEST(ChunkedLayer, TutelByHand) {
  const Costs costs = {{dispatch, 2}, {experts, 3}, {combine, 2}};
  EXPECT_DOUBLE_EQ(time_of(tutel_order(1), costs), 7);
  EXPECT_DOUBLE_EQ(time_of(tutel_order(2), costs), 10);
  EXPECT_DOUBLE_EQ(time_of(tutel_order(4), costs), 16);
  EXPECT_DOUBLE_EQ(time_of(tutel_order(4), {{dispatch, 1}, {experts, 2}, {combine, 3}}), 16);
}

TEST(ChunkedLayer, TutelsClosedForm) {
  ChunkDraws draws;
  for (int i = 0; i < 2000; ++i) {
    const int r = draws.chunks();
    const double a1 = draws.time(), x = draws.time(), a2 = draws.time();
    const double expected =
        std::max({r * (a1 + a2), a1 + r * x + a2, r * a1 + x + a2, a1 + x + r * a2});
    const auto order = tutel_order(r);
    EXPECT_NEAR(time_of(order, {{dispatch, a1}, {experts, x}, {combine, a2}}), expected, 1e-9);
    EXPECT_NEAR(time_of(order, {{dispatch, a1}, {experts, x}, {combine, a1}}),
                std::max(2 * r * a1, 2 * a1 + r * x), 1e-9);
  }
}

Costs schemoe_costs(double c, double a, double d, double e) {
  return {{compress_dispatch, c}, {dispatch, a}, {decompress_dispatch, d}, {experts, e},
          {compress_combine, c},  {combine, a},  {decompress_combine, d}};
}

TEST(ChunkedLayer, ScheMoeByHand) {
  const Costs slow_exchange = schemoe_costs(1, 4, 1, 2);
  EXPECT_DOUBLE_EQ(time_of(schemoe_order(2), slow_exchange), 18);
  EXPECT_DOUBLE_EQ(time_of(schemoe_order(4), slow_exchange), 34);
  const Costs slow_experts = schemoe_costs(1, 2, 1, 6);
  EXPECT_DOUBLE_EQ(time_of(schemoe_order(2), slow_experts), 22);
  EXPECT_DOUBLE_EQ(time_of(schemoe_order(4), slow_experts), 40);
}

TEST(ChunkedLayer, ScheMoeWithoutCompressionIsTutel) {
  ChunkDraws draws;
  for (int i = 0; i < 500; ++i) {
    const int r = draws.chunks();
    const Costs costs = schemoe_costs(0, draws.time(), 0, draws.time());
    EXPECT_NEAR(time_of(schemoe_order(r), costs), time_of(tutel_order(r), costs), 1e-9);
  }
}

/// All orders of two chunks' pieces on one lane, each chunk's in its own order: true is chunk 1.
std::vector<std::vector<bool>> interleavings(int pieces) {
  std::vector<bool> order(static_cast<std::size_t>(2 * pieces), false);
  std::fill(order.begin() + pieces, order.end(), true);
  std::vector<std::vector<bool>> all;
  do {
    all.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

constexpr ChunkWork schemoe_chain[] = {compress_dispatch, dispatch, decompress_dispatch, experts,
                                       compress_combine,  combine,  decompress_combine};

/// When both chunks have ended with these orders of both lanes; infinite where they deadlock.
double time_of_orders(const std::vector<bool>& compute, const std::vector<bool>& exchange,
                      const Costs& costs) {
  std::size_t next[2] = {0, 0};      // [chunk] in the chain
  double end[2] = {0, 0};            // [chunk]
  double free[2] = {0, 0};           // [lane]
  std::size_t launched[2] = {0, 0};  // [lane]
  bool moved = true;
  while (moved) {
    moved = false;
    for (const std::size_t lane : {0U, 1U}) {
      const std::vector<bool>& order = lane == 0 ? compute : exchange;
      if (launched[lane] == order.size()) continue;
      const std::size_t chunk = order[launched[lane]] ? 1 : 0;
      const ChunkWork work = schemoe_chain[next[chunk]];
      if ((lane_of(work) == LayerLane::compute) != (lane == 0)) continue;  // not its turn yet
      end[chunk] = free[lane] = std::max(end[chunk], free[lane]) + costs.at(work);
      ++next[chunk], ++launched[lane];
      moved = true;
    }
  }
  const bool whole = next[0] == std::size(schemoe_chain) && next[1] == next[0];
  return whole ? std::max(end[0], end[1]) : std::numeric_limits<double>::infinity();
}

TEST(ChunkedLayer, ScheMoeIsTheBestOfAllOrders) {
  const auto computes = interleavings(5);
  const auto exchanges = interleavings(2);
  ASSERT_EQ(computes.size(), 252U);
  ASSERT_EQ(exchanges.size(), 6U);
  ChunkDraws draws;
  for (int i = 0; i < 150; ++i) {
    const Costs costs = schemoe_costs(draws.time(), draws.time(), draws.time(), draws.time());
    double best = std::numeric_limits<double>::infinity();
    for (const auto& compute : computes) {
      for (const auto& exchange : exchanges) {
        best = std::min(best, time_of_orders(compute, exchange, costs));
      }
    }
    EXPECT_NEAR(time_of(schemoe_order(2), costs), best, 1e-9);
  }
}

Costs fsmoe_costs(double a2a, double ag, double exp, double gar) {
  return {{dispatch, a2a},      {all_gather, ag}, {experts, exp},
          {reduce_scatter, ag}, {combine, a2a},   {all_reduce, gar}};
}

TEST(ChunkedLayer, FsMoeByHand) {
  EXPECT_DOUBLE_EQ(time_of(fsmoe_order(1, false), fsmoe_costs(2, 1, 1, 0)), 7);
  EXPECT_DOUBLE_EQ(time_of(fsmoe_order(2, false), fsmoe_costs(2, 1, 1, 0)), 10);
  EXPECT_DOUBLE_EQ(time_of(fsmoe_order(2, true), fsmoe_costs(2, 1, 1, 5)), 13);
}

/// The paper's choice among its four cases.
double fsmoe_case(int r, double a2a, double ag, double exp, double gar) {
  const double rs = ag;
  const double f1 = 2 * r * a2a + gar;
  const double f2 = 2 * a2a + ag + rs + r * exp;
  const double f3 = 2 * r * a2a + ag + rs;
  const double f4 = 2 * a2a + r * ag + r * rs;
  const double hidden = 2 * (r - 1) * a2a;
  if (a2a > ag) {
    if (r * exp > hidden) return gar > ag + rs + r * exp - hidden ? f1 : f2;
    return gar > ag + rs ? f1 : f3;
  }
  if (r * exp > (r - 1) * (ag + rs)) return gar > ag + rs + r * exp - hidden ? f1 : f2;
  return gar > r * ag + r * rs - hidden ? f1 : f4;
}

TEST(ChunkedLayer, FsMoesClosedForms) {
  ChunkDraws draws;
  for (int i = 0; i < 3000; ++i) {
    const int r = draws.chunks();
    const double a2a = draws.time(), ag = draws.time(), exp = draws.time();
    const double gar = i % 3 == 0 ? 0 : r * draws.time();
    const double lanes = time_of(fsmoe_order(r, true), fsmoe_costs(a2a, ag, exp, gar));
    const double largest = std::max({2 * r * a2a + gar, 2 * a2a + 2 * ag + r * exp,
                                     2 * r * a2a + 2 * ag, 2 * a2a + 2 * r * ag});
    EXPECT_NEAR(lanes, largest, 1e-9);
    EXPECT_NEAR(fsmoe_case(r, a2a, ag, exp, gar), largest, 1e-9);
  }
}

/// "D0 D1 B0": the pieces of a lane.
std::string lane_text(const std::vector<ChunkPiece>& pieces, LayerLane lane) {
  static const std::map<ChunkWork, std::string> letters = {
      {dispatch, "S"},    {experts, "C"},           {combine, "R"}, {broadcast_shadow, "broadcast"},
      {shadow, "shadow"}, {reduce_shadow, "reduce"}};
  std::string line;
  for (const ChunkPiece& piece : pieces) {
    if (lane_of(piece.work) != lane) continue;
    line += (line.empty() ? "" : " ") + letters.at(piece.work) + std::to_string(piece.chunk);
  }
  return line;
}

TEST(ChunkedLayer, LanesOfTheSmartSchedule) {
  const auto forward = smart_forward_order(3, 2);
  EXPECT_EQ(lane_text(forward, LayerLane::exchange), "S0 S1 S2 broadcast0 broadcast1 R0 R1 R2");
  EXPECT_EQ(lane_text(forward, LayerLane::compute), "C0 C1 C2 shadow0 shadow1");
  const auto backward = smart_backward_order(3, 2);
  EXPECT_EQ(lane_text(backward, LayerLane::exchange), "S0 S1 S2 reduce0 reduce1 R0 R1 R2");
  EXPECT_EQ(lane_text(backward, LayerLane::compute), "shadow0 shadow1 C0 C1 C2");
}

TEST(ChunkedLayer, SmartScheduleWithinItsBounds) {
  ChunkDraws draws;
  for (int i = 0; i < 500; ++i) {
    const int groups = draws.chunks();
    const int shadows = draws.chunks() / 3;
    const Costs costs = {{dispatch, draws.time()}, {experts, draws.time()},
                         {combine, draws.time()},  {broadcast_shadow, draws.time()},
                         {shadow, draws.time()},   {reduce_shadow, draws.time()}};
    // Without shadows it is Tutel's order; with them no lane ends before all of its own work.
    EXPECT_NEAR(time_of(smart_forward_order(groups, 0), costs), time_of(tutel_order(groups), costs),
                1e-9);
    for (const bool forward : {true, false}) {
      const auto order =
          forward ? smart_forward_order(groups, shadows) : smart_backward_order(groups, shadows);
      const double travel = groups * (costs.at(dispatch) + costs.at(combine)) +
                            shadows * costs.at(forward ? broadcast_shadow : reduce_shadow);
      const double work = groups * costs.at(experts) + shadows * costs.at(shadow);
      EXPECT_GE(time_of(order, costs), std::max(travel, work) - 1e-9);
      EXPECT_LE(time_of(order, costs), travel + work + 1e-9);
    }
  }
}

TEST(ChunkedLayer, EveryGroupMeetsEveryGroupOnce) {
  for (int group = 0; group < 5; ++group) {
    std::set<int> met;
    for (int step = 0; step < 5; ++step) {
      const int to = smart_partners(group, step, 5).to;
      met.insert(to);
      EXPECT_EQ(smart_partners(to, step, 5).from, group);
    }
    EXPECT_EQ(met.size(), 5U);
  }
  EXPECT_EQ(smart_partners(2, 0, 4).to, 2);  // its own tokens first
}

}  // namespace
}  // namespace moesim
