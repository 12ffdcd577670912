// SPDX-License-Identifier: Apache-2.0
// Who joins when, and what is said of ops that never end.
#include "sim/plan/simulate/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "tests/engine/fixtures.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

/// Takes so many seconds on a test GPU, which reads 1 TB in one.
Op working(int gpu, std::int64_t seconds, std::initializer_list<int> after = {}) {
  return kernel("k", gpu, after, MemoryBound{Bytes(seconds * 1'000'000'000'000), Bytes(0)});
}

/// (op, participant, seconds, seconds of the last one or -1) of who joined.
std::vector<std::tuple<int, int, double, double>> joined_by(Progress& progress) {
  std::vector<std::tuple<int, int, double, double>> list;
  std::vector<Progress::Joined> joined;
  progress.take_joined(joined);
  for (const Progress::Joined& j : joined) {
    list.emplace_back(j.op.value, j.participant, j.at.value, j.all ? j.all->value : -1);
  }
  return list;
}

TEST(Progress, SaysWhoJoinsAndWhenTheLastOfThemDoes) {
  const Plan plan{"p",
                  2,
                  {working(1, 8), working(0, 2), exchange("x", {0, 1}, matrix(2, 1, {}), {0, 1}),
                   working(0, 3, {2}), exchange("y", {0}, matrix(1, 1, {}), {3})}};
  Progress progress(plan, test_gpus(2));
  using Expected = std::vector<std::tuple<int, int, double, double>>;
  EXPECT_EQ(joined_by(progress), (Expected{{2, 0, 2, -1}, {2, 1, 8, 8}}));
  EXPECT_EQ(joined_by(progress), Expected());
  progress.end(OpId(2), 0, Seconds(16));
  EXPECT_EQ(joined_by(progress), (Expected{{4, 0, 19, 19}}));
  progress.end(OpId(2), 1, Seconds(32));
  progress.end(OpId(4), Seconds(24));
  const Timeline timeline = progress.finish();
  EXPECT_EQ(timeline.makespan, Seconds(32));
  const auto of = [&](std::size_t op) {
    return std::vector<Interval>(timeline.ops[op].begin(), timeline.ops[op].end());
  };
  EXPECT_EQ(of(2), (std::vector<Interval>{{Seconds(2), Seconds(16)}, {Seconds(8), Seconds(32)}}));
  EXPECT_EQ(of(4), (std::vector<Interval>{{Seconds(19), Seconds(24)}}));
}

TEST(Progress, WhoJoinsAtOnceIsReportedAsOneIfThatIsAskedFor) {
  const auto x = [](std::initializer_list<int> gpus, std::initializer_list<int> after = {}) {
    return exchange("x", gpus, matrix(static_cast<int>(gpus.size()), 1, {}), after);
  };
  Plan plan{"p", 2, {x({0, 1}), x({0, 1}), working(1, 4), x({0, 1}, {2}), x({0})}};
  for (int op = 1; op < 4; ++op) plan.ops[static_cast<std::size_t>(op)].group = plan.ops[0].group;
  plan.ops[2].group = {GpuId(1)};
  Progress progress(plan, test_gpus(2));
  progress.report_together();
  using Expected = std::vector<std::tuple<int, int, double, double>>;
  EXPECT_EQ(joined_by(progress), (Expected{{0, 0, 0, -1}, {0, 1, 0, 0}}));  // before
  progress.end(OpId(0), Seconds(1));
  EXPECT_EQ(joined_by(progress), (Expected{{1, Progress::everyone, 1, 1}}));
  progress.end(OpId(1), Seconds(2));
  EXPECT_EQ(joined_by(progress), (Expected{{3, 0, 2, -1}, {3, 1, 4, 4}}));  // one has computed
  progress.end(OpId(3), Seconds(8));
  EXPECT_EQ(joined_by(progress), (Expected{{4, 0, 8, 8}}));
  progress.end(OpId(4), Seconds(16));
  const Timeline timeline = progress.finish();
  EXPECT_EQ(timeline.ops[1][1], (Interval{Seconds(1), Seconds(2)}));
  EXPECT_EQ(timeline.ops[3][1], (Interval{Seconds(4), Seconds(8)}));
}

TEST(Progress, TimesAreTheSameIfExchangesOnlyEndTogether) {
  Plan plan{
      "p",
      2,
      {exchange("x", {0, 1}, matrix(2, 1, {})), working(0, 2), working(1, 4),
       exchange("y", {0, 1}, matrix(2, 1, {}), {1, 2}), exchange("z", {0, 1}, matrix(2, 1, {}))}};
  for (const int op : {1, 2}) plan.ops[static_cast<std::size_t>(op)].after = {OpId(0)};
  for (const int op : {3, 4}) plan.ops[static_cast<std::size_t>(op)].group = plan.ops[0].group;
  std::vector<Timeline> timelines;
  for (const auto ends : {Progress::ExchangeEnds::one_by_one, Progress::ExchangeEnds::together}) {
    Progress progress(plan, test_gpus(2), Progress::KernelEnds::timed, ends);
    progress.report_together();
    progress.end(OpId(0), Seconds(1));
    progress.end(OpId(3), Seconds(8));
    progress.end(OpId(4), Seconds(16));
    timelines.push_back(progress.finish());
  }
  EXPECT_EQ(timelines[0].ops, timelines[1].ops);
  EXPECT_EQ(timelines[0].ops[3][0], (Interval{Seconds(3), Seconds(8)}));
  EXPECT_EQ(timelines[0].ops[4][1], (Interval{Seconds(8), Seconds(16)}));
}

TEST(Progress, KernelsEndedByCallsJoinToo) {
  const Plan plan{
      "p", 1, {working(0, 4), kernel("h", 0, {}, HostWork{5'000'000'000}), working(0, 1)}};
  Progress progress(plan, test_gpus(1), Progress::KernelEnds::by_call);
  EXPECT_EQ(joined_by(progress), (std::vector<std::tuple<int, int, double, double>>{{0, 0, 0, 0}}));
  EXPECT_EQ(progress.duration(OpId(0), 0), Seconds(4));
  progress.end(OpId(0), Seconds(10));
  EXPECT_EQ(joined_by(progress),
            (std::vector<std::tuple<int, int, double, double>>{{2, 0, 15, 15}}));
  progress.end(OpId(2), Seconds(20));
  EXPECT_EQ(progress.finish().makespan, Seconds(20));
}

TEST(Progress, ForetellsWhenKernelsCompute) {
  const Plan plan{"p",
                  1,
                  {working(0, 4), working(0, 2), kernel("h", 0, {}, HostWork{1'000'000'000}),
                   working(0, 1), exchange("x", {0}, matrix(1, 1, {}), {3})}};
  Progress progress(plan, test_gpus(1), Progress::KernelEnds::foretold);
  std::vector<Progress::Computing> computing;
  progress.take_computing(computing);
  ASSERT_EQ(computing.size(), 2u);
  EXPECT_EQ(computing[0].when, (Interval{Seconds(0), Seconds(6)}));
  EXPECT_EQ(computing[1].when, (Interval{Seconds(7), Seconds(8)}));
  EXPECT_EQ(joined_by(progress), (std::vector<std::tuple<int, int, double, double>>{{4, 0, 8, 8}}));
  progress.end(OpId(4), Seconds(9));
  progress.take_computing(computing);
  EXPECT_TRUE(computing.empty());
  EXPECT_EQ(progress.finish().ops[1][0], (Interval{Seconds(4), Seconds(6)}));
}

// 1,024 kernels on 1,024 GPUs: times are derived, not stored.
TEST(Progress, ManyKernelsThatFollowEachOtherEndInTheirOrder) {
  Plan plan{"p", 1024, {}};
  const Group all = Group::first(plan.gpus);
  for (int i = 0; i < 1024; ++i) plan.add(working(0, i % 2 + 1));
  for (Op& op : plan.ops) op.group = all;
  Op last = exchange("x", {0}, matrix(1024, 1, {}), {1023});
  last.group = all;
  plan.add(last);
  Progress progress(plan, test_gpus(plan.gpus), Progress::KernelEnds::foretold);
  std::vector<Progress::Computing> computing;
  progress.take_computing(computing);
  ASSERT_EQ(computing.size(), 1024u);
  EXPECT_EQ(computing[7].when, (Interval{Seconds(0), Seconds(1536)}));
  progress.end(OpId(1024), Seconds(2000));
  const Timeline timeline = progress.finish();
  EXPECT_EQ(timeline.ops[3][5], (Interval{Seconds(4), Seconds(6)}));
  EXPECT_EQ(timeline.ops[1024][5], (Interval{Seconds(1536), Seconds(2000)}));
}

TEST(Progress, ManyGroupsThatWaitForAnOpOfAllJoinTheirOwnExchange) {
  constexpr int groups = 20;  // of two GPUs each
  Plan plan{"p", 2 * groups, {}};
  Op all = working(0, 1);
  all.group = Group::first(plan.gpus);
  plan.add(all);
  for (int g = 0; g < groups; ++g) {
    plan.add(exchange("x", {2 * g, 2 * g + 1}, matrix(2, 1, {}), {0}));
  }
  Progress progress(plan, test_gpus(plan.gpus));
  std::vector<std::tuple<int, int, double>> joined, expected;
  std::map<int, std::vector<double>> all_joined;  // [op]
  for (const auto& [op, participant, at, last] : joined_by(progress)) {
    joined.emplace_back(op, participant, at);
    all_joined[op].push_back(last);
  }
  for (int g = 0; g < groups; ++g) {
    for (const int participant : {0, 1}) expected.emplace_back(g + 1, participant, 1);
    std::ranges::sort(all_joined[g + 1]);
    EXPECT_EQ(all_joined[g + 1], (std::vector<double>{-1, 1})) << g;
  }
  EXPECT_EQ(joined, expected);
}

TEST(Progress, OnlyTheLastWhoJoinsIsReportedIfThatIsAskedFor) {
  const Plan plan{"p",
                  2,
                  {exchange("x", {0, 1}, matrix(2, 1, {})), working(0, 2, {0}), working(1, 4, {0}),
                   exchange("y", {0, 1}, matrix(2, 1, {}), {1, 2})}};
  Progress progress(plan, test_gpus(2));
  progress.report_last();
  joined_by(progress);  // takes the joins of op 0
  progress.end(OpId(0), Seconds(1));
  const auto joined = joined_by(progress);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(std::get<0>(joined[0]), 3);
  EXPECT_EQ(std::get<3>(joined[0]), 5);
}

/// What finish() says if `ops` exchanges never end; one participant of the first has ended.
std::string unfinished(int ops) {
  Plan plan{"p", 2, {}};
  for (int i = 0; i < ops; ++i) plan.add(exchange("x", {0, 1}, matrix(2, 1, {})));
  plan.ops.front().key.layer = 3;
  Progress progress(plan, test_gpus(2));
  progress.end(OpId(0), 1, Seconds(1));
  try {
    progress.finish();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Progress, OfAChainTheFirstKernelJoinsAndTheLastEnds) {
  const Plan plan{
      "p", 1, {working(0, 4), working(0, 2), kernel("h", 0, {}, HostWork{5}), working(0, 1)}};
  Progress progress(plan, test_gpus(1), Progress::KernelEnds::by_call_per_chain);
  EXPECT_EQ(joined_by(progress), (std::vector<std::tuple<int, int, double, double>>{{0, 0, 0, 0}}));
  EXPECT_EQ(progress.next_in_chain(OpId(0)), OpId(1));
  EXPECT_LT(progress.next_in_chain(OpId(1)), OpId(0));  // host work ends by itself
  EXPECT_EQ(progress.start(OpId(1), 0, Seconds(10)), Seconds(10));
  progress.pass_on(OpId(0), 0, Seconds(10));
  EXPECT_EQ(joined_by(progress), (std::vector<std::tuple<int, int, double, double>>()));
  progress.end(OpId(1), 0, Seconds(16));
  const auto joined = joined_by(progress);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(std::get<0>(joined[0]), 3);
  progress.end(OpId(3), 0, Seconds(32));
  const Timeline timeline = progress.finish();
  EXPECT_EQ(timeline.ops[0][0], (Interval{Seconds(0), Seconds(10)}));
  EXPECT_EQ(timeline.ops[1][0], (Interval{Seconds(10), Seconds(16)}));
  EXPECT_EQ(timeline.makespan, Seconds(32));
}

TEST(Progress, NamesFiveOpsThatNeverEnded) {
  const std::string first = "op 0 'x' (layer 3, 0 of 2 participants missing)";
  EXPECT_EQ(unfinished(1), "1 op of plan 'p' never finished: " + first);
  const auto next = [](int op, int missing) {
    return ", op " + std::to_string(op) + " 'x' (layer -1, " + std::to_string(missing) +
           " of 2 participants missing)";
  };
  EXPECT_EQ(unfinished(2), "2 ops of plan 'p' never finished: " + first + next(1, 1));
  const std::string five = first + next(1, 1) + next(2, 2) + next(3, 2) + next(4, 2);
  EXPECT_EQ(unfinished(5), "5 ops of plan 'p' never finished: " + five);
  EXPECT_EQ(unfinished(6), "6 ops of plan 'p' never finished: " + five + ", ...");
}

TEST(Progress, KnowsWhatComputes) {
  Op copy = kernel("c", 0), host = kernel("h", 0, {}, HostWork{1});
  copy.stream = Stream::copy;
  EXPECT_TRUE(is_computing(kernel("k", 0)));
  EXPECT_FALSE(is_computing(copy));
  EXPECT_FALSE(is_computing(host));
  EXPECT_FALSE(is_computing(exchange("x", {0}, matrix(1, 1, {}))));
}

TEST(Progress, NeedsAModelOfEveryGpu) {
  const Plan plan{"p", 2, {}};
  EXPECT_EQ(error_of([&] { Progress(plan, test_gpus(1)); }),
            "error: plan 'p' is for 2 GPUs, but the cluster has 1\n");
}

}  // namespace
}  // namespace moesim
