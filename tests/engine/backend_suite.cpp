// SPDX-License-Identifier: Apache-2.0
// The plans of the shared suite and what must come out of them.
#include "tests/engine/backend_suite.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <random>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/plan/check.h"

namespace moesim::test {

TEST_P(BackendOrder, RunsAnEmptyPlan) {
  const Timeline timeline = run(PlanWriter(2).plan());
  EXPECT_TRUE(timeline.ops.empty());
  EXPECT_EQ(timeline.makespan, Seconds(0));
}

TEST_P(BackendOrder, RunsALaneInListOrder) {
  PlanWriter w(2);
  const OpId first = w.compute(0, milliseconds(1));
  const OpId second = w.compute(0, milliseconds(1));
  const Timeline timeline = run(w.plan());
  EXPECT_GE(timeline.ops[second.index()][0].start, timeline.ops[first.index()][0].end);
}

TEST_P(BackendOrder, WaitsForTheOpsItComesAfter) {
  PlanWriter w(2);
  const OpId slow = w.compute(0, milliseconds(2));
  const OpId exchange = w.exchange({0, 1}, {{0, 1, 1000}}, {slow});
  const OpId last = w.compute(1, milliseconds(1), {exchange});
  const Timeline timeline = run(w.plan());
  EXPECT_GE(timeline.ops[exchange.index()][0].start, timeline.ops[slow.index()][0].end);
  EXPECT_GE(timeline.ops[last.index()][0].start, timeline.ops[exchange.index()][1].end);
}

TEST_P(BackendOrder, CountsWaitingInsideAnExchange) {
  PlanWriter w(2);
  const OpId slow = w.compute(0, milliseconds(5));
  const OpId exchange = w.exchange({0, 1}, {{0, 1, 1000}}, {slow});
  const Timeline timeline = run(w.plan());
  const auto& joined = timeline.ops[exchange.index()];
  EXPECT_LT(joined[1].start, timeline.ops[slow.index()][0].end);  // joined early ...
  // ... and waited, by its own clock: those of two ranks differ by a millisecond on busy cores.
  EXPECT_GT(joined[1].end - joined[1].start, milliseconds(2.5));
}

TEST_P(BackendOrder, ReportsTheMakespan) {
  PlanWriter w(2);
  const OpId one = w.compute(0, milliseconds(1));
  const OpId other = w.compute(1, milliseconds(3));
  const Timeline timeline = run(w.plan());
  EXPECT_EQ(timeline.makespan,
            std::max(timeline.ops[one.index()][0].end, timeline.ops[other.index()][0].end));
}

TEST_P(BackendOrder, RunsTheStreamsOfAGpuAtOnce) {
  PlanWriter w(2);
  const OpId compute = w.compute(0, milliseconds(3));
  const OpId copy = w.compute(0, milliseconds(3), {}, Stream::copy);
  const OpId exchange = w.exchange({0, 1}, {{0, 1, 1000}});
  const Timeline timeline = run(w.plan());
  const Interval& computes = timeline.ops[compute.index()][0];
  const Interval& copies = timeline.ops[copy.index()][0];
  EXPECT_LT(copies.start, computes.end);
  EXPECT_LT(computes.start, copies.end);
  EXPECT_LT(timeline.ops[exchange.index()][0].start, computes.end);
}

TEST_P(BackendOrder, RunsAnExchangeOfOneStreamBesideThatOfAnother) {
  PlanWriter w(2);
  const OpId slow = w.compute(1, milliseconds(3));
  const OpId waiting = w.exchange({0, 1}, {{1, 0, 1000}}, {slow});
  const OpId free = w.exchange({0, 1}, {{0, 1, 1000}, {1, 0, 1000}}, {}, Stream::param);
  const Timeline timeline = run(w.plan());
  EXPECT_LT(timeline.ops[waiting.index()][0].start, timeline.ops[slow.index()][0].end);
  EXPECT_LT(timeline.ops[free.index()][0].end, timeline.ops[waiting.index()][0].end);
}

/// Ops of all streams at random, which wait for random earlier ones of the same GPU.
Plan random_plan(std::mt19937& random) {
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  PlanWriter w(2);
  for (int i = 0; i < 40; ++i) {
    const int gpu = below(2), kind = below(5);
    std::vector<OpId> after;
    for (int earlier = 0; earlier < i; ++earlier) {
      const Op& op = w.plan().ops[static_cast<std::size_t>(earlier)];
      const bool shared = kind > 1 || op.group.contains(GpuId(gpu));
      if (shared && below(8) == 0) after.emplace_back(earlier);
    }
    if (kind < 2) {
      w.compute(gpu, milliseconds(0.001 * below(10)), after,
                kind == 0 ? Stream::compute : Stream::copy);
    } else {
      const Stream stream = kind == 2 ? Stream::ep : kind == 3 ? Stream::ep_2 : Stream::param;
      w.exchange({0, 1}, {{0, 1, 1000 * below(50)}, {1, 0, 1000 * below(50)}}, after, stream);
    }
  }
  return w.plan();
}

TEST_P(BackendOrder, StartsNothingBeforeWhatItWaitsForHasEnded) {
  std::mt19937 random(17);
  for (int i = 0; i < 10; ++i) {
    const Plan plan = random_plan(random);
    const Timeline timeline = run(plan);
    const auto all = dependencies(plan);
    const auto on_gpu = [&](OpId op, GpuId gpu) {
      const std::size_t member = plan[op].group.member(gpu);
      const OpIntervals intervals = timeline.ops[op.index()];
      return member < intervals.size() ? std::optional(intervals[member]) : std::nullopt;
    };
    for (OpId op(0); op.index() < plan.ops.size(); ++op.value) {
      for (const GpuId gpu : plan[op].group) {
        for (const OpId before : all[op.index()]) {
          const std::optional<Interval> earlier = on_gpu(before, gpu);
          if (!earlier) continue;
          EXPECT_GE(on_gpu(op, gpu)->start, earlier->end)
              << "op " << op.value << " after " << before.value << " on GPU " << gpu.value;
        }
      }
    }
  }
}

TEST_P(BackendTimes, TakesLatencyAndBytesOverBandwidth) {
  PlanWriter w(2);
  w.exchange({0, 1}, {{0, 1, 50'000'000}});
  const Timeline timeline = run(w.plan());
  expect_interval(timeline.ops[0][0], 0, 1.005);
  expect_interval(timeline.ops[0][1], 0, 1.005);
  EXPECT_EQ(timeline.ops[0][0].end, timeline.makespan);
}

TEST_P(BackendTimes, MovesASingleByte) {
  PlanWriter w(2);
  w.exchange({0, 1}, {{0, 1, 1}});
  EXPECT_NEAR(run(w.plan()).makespan.value, 5e-6 + 1 / 50e9, 1e-9);
}

TEST_P(BackendTimes, AddsTheOverheadOfEveryExchange) {
  PlanWriter w(2);
  w.exchange({0, 1}, {{0, 1, 50'000'000}});
  w.exchange({0, 1}, {});
  const Timeline timeline = run(w.plan(), star(2, milliseconds(0.02)));
  expect_interval(timeline.ops[0][0], 0, 1.025);
  expect_interval(timeline.ops[1][0], 1.025, 1.045);  // nothing moves: no latency either
}

TEST_P(BackendTimes, KeepsTheDiagonalOffTheNetwork) {
  PlanWriter w(2);
  w.exchange({0, 1}, {{0, 0, 100'000'000}, {0, 1, 50'000'000}});
  w.exchange({0, 1}, {{0, 0, 100'000'000}});
  const Timeline timeline = run(w.plan());
  expect_interval(timeline.ops[0][1], 0, 1.005);
  expect_interval(timeline.ops[1][1], 1.005, 1.005);
}

TEST_P(BackendTimes, LastsAsLongAsItsBusiestPort) {
  PlanWriter w(3);
  w.exchange({0, 1, 2}, {{0, 1, 20'000'000}, {0, 2, 20'000'000}, {1, 2, 40'000'000}});
  const Timeline timeline = run(w.plan());
  // 0 sends both halves of its 40 MB at the same rate; 1 sends at what the port of 2 leaves.
  const double first = GetParam().together ? 1.205 : 0.805;
  expect_interval(timeline.ops[0][0], 0, first);
  expect_interval(timeline.ops[0][1], 0, 1.205);
  expect_interval(timeline.ops[0][2], 0, 1.205);
}

TEST_P(BackendTimes, OverlapsTheStreamsOfAGpu) {
  PlanWriter w(2);
  const OpId compute = w.compute(0, milliseconds(3));
  const OpId copy = w.compute(0, milliseconds(2), {}, Stream::copy);
  const OpId exchange = w.exchange({0, 1}, {{0, 1, 50'000'000}});
  const Timeline timeline = run(w.plan());
  expect_interval(timeline.ops[compute.index()][0], 0, 3);
  expect_interval(timeline.ops[copy.index()][0], 0, 2);
  expect_interval(timeline.ops[exchange.index()][0], 0, 1.005);
}

TEST_P(BackendTimes, StartsNothingThatTheHostHasNotIssued) {
  PlanWriter w(2);
  const OpId first = w.compute(0, milliseconds(1));
  const OpId second = w.compute(0, milliseconds(0.1));
  const OpId exchange = w.exchange({0, 1}, {{0, 1, 50'000'000}}, {second});
  const OpId third = w.compute(0, milliseconds(1), {exchange});
  const OpId read = w.kernel(0, HostWork{1'000'000});
  const OpId last = w.compute(0, milliseconds(1));
  auto gpu = std::make_shared<GpuModel>(*test_gpus(2).front());
  gpu->host.per_kernel = milliseconds(0.5);
  gpu->host.per_collective = milliseconds(1);
  const Timeline timeline = GetParam().make(star(2), {gpu, gpu})->run(w.plan());
  const auto expect = [&](OpId op, std::size_t member, double start_ms, double end_ms) {
    expect_interval(timeline.ops[op.index()][member], start_ms, end_ms);
  };
  expect(first, 0, 0.5, 1.5);
  expect(second, 0, 1.5, 1.6);
  expect(exchange, 0, 2, 3.005);
  expect(exchange, 1, 1, 3.005);
  expect(third, 0, 3.005, 4.005);  // issued long before
  expect(read, 0, 4.005, 5.005);   // the host waits for it
  expect(last, 0, 5.505, 6.505);
}

TEST_P(BackendTimes, WaitsForTheLatestOfSeveralOps) {
  for (const auto& [compute_ms, copy_ms] : {std::pair(1, 2), std::pair(2, 1)}) {
    PlanWriter w(1);
    w.compute(0, milliseconds(compute_ms));
    const OpId copy = w.compute(0, milliseconds(copy_ms), {}, Stream::copy);
    const OpId last = w.compute(0, milliseconds(1), {copy});
    expect_interval(run(w.plan()).ops[last.index()][0], 2, 3);
  }
}

TEST_P(BackendTimes, StartsWithItsLastParticipant) {
  PlanWriter w(3);
  const OpId one = w.compute(0, milliseconds(1));
  const OpId two = w.compute(1, milliseconds(2));
  const OpId exchange = w.exchange({0, 1, 2}, {{0, 2, 50'000'000}}, {one, two});
  const OpId after = w.compute(2, milliseconds(1), {exchange});
  const Timeline timeline = run(w.plan());
  const auto& joined = timeline.ops[exchange.index()];
  const double last = GetParam().together ? 3.005 : 2.005;  // 1 moves nothing
  expect_interval(joined[0], 1, last);
  expect_interval(joined[1], 2, GetParam().together ? last : 2);
  expect_interval(joined[2], 0, last);
  expect_interval(timeline.ops[after.index()][0], last, last + 1);
}

TEST_P(BackendTimes, SharesAPortEvenly) {
  PlanWriter w(3);
  const OpId big = w.exchange({0, 1}, {{0, 1, 50'000'000}}, {}, Stream::ep);
  const OpId small = w.exchange({0, 2}, {{0, 2, 25'000'000}}, {}, Stream::param);
  const Timeline timeline = run(w.plan());
  const bool shares = GetParam().shares_links;
  expect_interval(timeline.ops[small.index()][0], 0, shares ? 1.005 : 0.505);
  expect_interval(timeline.ops[big.index()][0], 0, shares ? 1.505 : 1.005);
}

TEST_P(BackendTimes, SharesAPortFromWhenTheSecondExchangeBegins) {
  PlanWriter w(3);
  const OpId wait = w.compute(0, milliseconds(0.5));
  const OpId big = w.exchange({0, 1}, {{0, 1, 50'000'000}, {1, 0, 49'000'000}});
  const OpId small =
      w.exchange({0, 2}, {{0, 2, 12'500'000}, {2, 0, 1'000'000}}, {wait}, Stream::param);
  const Timeline timeline = run(w.plan());
  const bool shares = GetParam().shares_links;
  expect_interval(timeline.ops[small.index()][0], 0.5, shares ? 1.005 : 0.755);
  expect_interval(timeline.ops[big.index()][0], 0, shares ? 1.255 : 1.005);
}

TEST_P(BackendTimes, SharesAPortEvenlyWhateverTheLatencies) {
  PlanWriter w(3);
  const OpId near = w.exchange({0, 1}, {{0, 1, 50'000'000}});
  const OpId far = w.exchange({0, 2}, {{0, 2, 50'000'000}}, {}, Stream::param);
  const Timeline timeline = run(w.plan(), star(3, Seconds(0), true));
  const bool shares = GetParam().shares_links;
  expect_interval(timeline.ops[near.index()][0], 0, shares ? 1.985 : 1.005);
  expect_interval(timeline.ops[far.index()][0], 0, shares ? 2.005 : 1.025);
}

TEST_P(BackendTimes, SpreadsOverEqualCostPaths) {
  PlanWriter w(2);
  w.exchange({0, 1}, {{0, 1, 50'000'000}, {1, 0, 10'000'000}});
  const Timeline timeline = run(w.plan(), two_spines());
  expect_interval(timeline.ops[0][0], 0, 1.010);
}

TEST_P(BackendTimes, LetsTheBusiestPortChangeWhenItIsShared) {
  // Alone, the first exchange ends with the port into GPU 2. The second holds up the one out of 0.
  PlanWriter w(4);
  const OpId first = w.exchange({0, 1, 2}, {{0, 2, 30'000'000}, {1, 2, 10'000'000}});
  const OpId second = w.exchange({0, 3}, {{0, 3, 30'000'000}}, {}, Stream::param);
  const Timeline timeline = run(w.plan());
  const bool shares = GetParam().shares_links;
  expect_interval(timeline.ops[first.index()][0], 0, shares ? 1.205 : 0.805);
  expect_interval(timeline.ops[second.index()][0], 0, shares ? 1.205 : 0.605);
}

TEST_P(BackendTimes, RunsExchangesOfOtherGpusAtOnce) {
  PlanWriter w(4);
  w.exchange({0, 1}, {{0, 1, 50'000'000}});
  w.exchange({2, 3}, {{2, 3, 25'000'000}});
  const Timeline timeline = run(w.plan());
  expect_interval(timeline.ops[0][0], 0, 1.005);
  expect_interval(timeline.ops[1][0], 0, 0.505);
}

TEST_P(BackendTimes, EndsAnExchangeOfNobodyAtOnce) {
  PlanWriter w(2);
  w.exchange({}, {});
  w.compute(0, milliseconds(1));
  const Timeline timeline = run(w.plan());
  EXPECT_TRUE(timeline.ops[0].empty());
  expect_interval(timeline.ops[1][0], 0, 1);
}

TEST_P(BackendTimes, RunsEveryPlanFromTimeZeroAndAlike) {
  PlanWriter w(3);
  const OpId compute = w.compute(1, Seconds(0.0012345));
  w.exchange({0, 1, 2}, {{0, 1, 1234567}, {1, 2, 7654321}}, {compute});
  w.exchange({0, 2}, {{0, 2, 333333}, {2, 0, 1111111}}, {}, Stream::param);
  PlanWriter other(3);
  other.exchange({0, 1}, {{0, 1, 98765}});
  const Topology topology = star(3);
  const auto backend = GetParam().make(topology, test_gpus(3));
  const Timeline first = backend->run(w.plan());
  backend->run(other.plan());
  const Timeline again = backend->run(w.plan());
  EXPECT_EQ(first.ops, again.ops);
  EXPECT_EQ(first.makespan, again.makespan);
  const auto second_backend = GetParam().make(topology, test_gpus(3));
  EXPECT_EQ(first.ops, second_backend->run(w.plan()).ops);
}

TEST_P(BackendTimes, ReportsAKernelThatAGpuCannotRun) {
  PlanWriter w(2);
  const OpId exchange = w.exchange({0, 1}, {{0, 1, 1000}});
  w.kernel(0, GroupedGemm{{1}, 1, 1, DataType::fp8}, {exchange});
  EXPECT_THROW(run(w.plan()), Error);
}

TEST_P(BackendTimes, NamesTheOpsThatNeverEnd) {
  PlanWriter w(2);
  const OpId first = w.exchange({0, 1}, {{0, 1, 1000}});
  const OpId second = w.compute(0, milliseconds(1), {first});
  w.compute(1, milliseconds(1));
  w.wait(first, second);
  EXPECT_THAT([&] { run(w.plan()); },
              testing::ThrowsMessage<std::runtime_error>(
                  testing::AllOf(testing::HasSubstr("2 ops"), testing::HasSubstr("op 0 'exchange'"),
                                 testing::HasSubstr("op 1 'compute'"))));
}

}  // namespace moesim::test
