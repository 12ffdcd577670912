// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/serve.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/trace/memory_step.h"
#include "sim/trace/synth/random.h"
#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

/// Requests of the given lengths in one step or more, one layer of 4,096 experts, top-1; the expert
/// of token p of request r is 64 r + p, the weight that number over 4,096.
RoutingTrace log_of(const std::vector<std::vector<std::int32_t>>& steps) {
  const TraceInfo info{"log", "toy", 4096, 1, {0}, Phase::decode, ""};
  std::vector<std::shared_ptr<const TraceStep>> made;
  int request = 0;
  for (const auto& lengths : steps) {
    StepArrays arrays;
    arrays.number = static_cast<std::int64_t>(made.size());
    arrays.sequence_lengths = lengths;
    std::vector<int> ids;
    for (const std::int32_t length : lengths) {
      for (int p = 0; p < length; ++p) ids.push_back(64 * request + p);
      ++request;
    }
    arrays.ids = IdArray(4096, ids);
    for (const int id : ids) arrays.weights.push_back(static_cast<float>(id) / 4096);
    made.push_back(make_step(info, std::move(arrays)));
  }
  return {info, std::move(made)};
}

/// {decode step: {the (request, position) of each of its tokens}}.
using Served = std::map<std::int64_t, std::vector<std::pair<int, int>>>;
Served served(const RoutingTrace& log, const ServeOptions& options) {
  DecodeServer server(log, options);
  Served out;
  while (const auto step = server.next_step()) {
    auto& tokens = out[step->number()];
    for (std::int64_t t = 0; t < step->tokens(); ++t) {
      const int id = step->ids(0).at(t, 0);
      EXPECT_EQ(step->weight(0, t, 0), static_cast<float>(id) / 4096);
      EXPECT_EQ(step->sequence_lengths()[static_cast<std::size_t>(t)], 1);
      tokens.emplace_back(id / 64, id % 64);
    }
  }
  EXPECT_EQ(server.progress(), 1);
  return out;
}

TEST(Serve, GivesAFreeSlotToTheNextRequest) {
  EXPECT_EQ(served(log_of({{3, 1}, {2}}), {.batch = 2, .least = 1}),
            (Served{{0, {{0, 0}, {1, 0}}}, {1, {{0, 1}, {2, 0}}}, {2, {{0, 2}, {2, 1}}}}));
}

TEST(Serve, WaitsForArrivals) {
  const auto log = log_of({{2, 1, 1}});
  EXPECT_EQ(served(log, {.batch = 2, .least = 1, .arrivals = {4.5, 0, 5}}),
            (Served{{0, {{1, 0}}}, {5, {{0, 0}, {2, 0}}}, {6, {{0, 1}}}}));
}

TEST(Serve, LeavesOutStepsWithoutAFullBatch) {
  DecodeServer server(log_of({{3, 1, 1}}), {.batch = 2});
  int steps = 0;
  while (server.next_step()) ++steps;
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(server.steps_left_out(), 1);
  EXPECT_EQ(server.tokens_left_out(), 1);
  EXPECT_EQ(server.requests(), 3);
}

/// Against what continuous batching means, for many logs and arrivals.
TEST(Serve, ServesEveryTokenOnceAndNeverIdles) {
  Random random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::int32_t> lengths;
    for (int r = 0; r < 40; ++r) lengths.push_back(1 + static_cast<std::int32_t>(random.below(20)));
    lengths[0] = 20;
    const int batch = 1 + static_cast<int>(random.below(12));
    const double rate = 0.05 + random.uniform();
    const auto arrivals = poisson_arrivals(40, rate, static_cast<std::uint64_t>(round));
    const auto steps =
        served(log_of({lengths}), {.batch = batch, .least = 1, .arrivals = arrivals});
    std::vector<std::int64_t> begun(40, -1), next(40);
    for (const auto& [now, tokens] : steps) {
      ASSERT_LE(static_cast<int>(tokens.size()), batch);
      for (const auto& [request, position] : tokens) {
        if (position == 0) begun[request] = now;
        ASSERT_EQ(position, next[request]++);       // in order, each once
        ASSERT_EQ(now, begun[request] + position);  // a token every step
        ASSERT_LE(arrivals[request], static_cast<double>(now));
      }
      if (static_cast<int>(tokens.size()) == batch) continue;
      for (std::size_t r = 0; r < 40; ++r) {  // who has come runs while there is room
        ASSERT_FALSE(begun[r] < 0 && arrivals[r] <= static_cast<double>(now)) << r << " at " << now;
      }
    }
    for (std::size_t r = 0; r < 40; ++r) EXPECT_EQ(next[r], lengths[r]);
    EXPECT_TRUE(std::ranges::is_sorted(begun));  // first come first served
  }
}

TEST(Serve, ArrivalsComeAtTheirRate) {
  const auto arrivals = poisson_arrivals(20000, 0.5, 1);
  EXPECT_NEAR(arrivals.back(), 40000, 1200);  // 4 standard deviations
  EXPECT_THAT(parse_arrivals("0\n2.5\n1e3\n", "a.txt"), testing::ElementsAre(0, 2.5, 1000));
  EXPECT_EQ(error_of([] { parse_arrivals("0\n-1\n", "a.txt"); }).substr(0, 58),
            "a.txt:2: error: '-1' is not an arrival in decode steps\nhin");
  EXPECT_THAT(parse_arrivals("1e12", "a.txt"), testing::ElementsAre(1e12));
  EXPECT_THROW(parse_arrivals("1.1e12", "a.txt"), Error);
  EXPECT_EQ(poisson_arrivals(3, 1e6, 1).size(), 3u);
  EXPECT_THROW(poisson_arrivals(3, 1.1e6, 1), Error);
  EXPECT_EQ(error_of([] { poisson_arrivals(3, 0, 1); }),
            "error: 0 requests per decode step; more than 0 come\n");
}

TEST(Serve, RefusesWhatHasNoRequests) {
  const auto text = [](const RoutingTrace& trace, const ServeOptions& options) {
    return error_of([&] { DecodeServer(trace, options); });
  };
  EXPECT_EQ(text(tiny_trace(), {}).substr(0, 37), "error: trace 'tiny' is not of decode\n");
  EXPECT_EQ(text(log_of({{1, 1}, {1}}), {}),
            "error: every sequence of trace 'log' is one token\n"
            "hint: it is laid out by decode steps already\n");
  EXPECT_EQ(text(log_of({{2, 1}}), {.arrivals = {1}}), "error: 1 arrivals of 2 requests\n");
  EXPECT_EQ(text(log_of({{2, 1}}), {.batch = 0}), "error: a batch of 0; it is from 1 to 1048576\n");
  EXPECT_EQ(text(log_of({{2, 1}}), {.batch = 1048576}), "");
}

}  // namespace
}  // namespace moesim
