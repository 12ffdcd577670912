// SPDX-License-Identifier: Apache-2.0
// What is built of a job's calls: gathers, sums, places on hosts and one clock for all ranks.
#include "realhw/job/job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "realhw/job/local_rank.h"
#include "realhw/job/timeline_gatherer.h"
#include "sim/base/error.h"
#include "tests/plan/fixtures.h"
#include "tests/realhw/nccl/thread_job.h"

namespace moesim {
namespace {

using test::exchange;
using test::kernel;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

/// Runs the body as every rank; none throws.
template <class Body>
void as_all_ranks(int ranks, Body body) {
  EXPECT_THAT(as_ranks(ranks, body), Each(IsEmpty()));
}

TEST(JobCalls, GatherWhatEveryRankGives) {
  as_all_ranks(3, [](Job& job) {
    const int rank = job.rank();
    EXPECT_THAT(all_gather(job, std::string(static_cast<std::size_t>(2 * rank), 'x')),
                ElementsAre("", "xx", "xxxx"));
    EXPECT_THAT(sums_over_ranks(job, {rank, 10 - rank}), ElementsAre(3, 27));
    const auto values = gather_on_first(job, {rank + 0.5, -rank + 0.0});
    if (rank == 0) {
      EXPECT_THAT(values, ElementsAre(0.5, 0, 1.5, -1, 2.5, -2));
    } else {
      EXPECT_THAT(values, IsEmpty());
    }
    EXPECT_EQ(count_hosts(job), 1);
  });
}

/// Odd ranks are on another host; the host name is what the given gather carries.
class OnTwoHosts : public ThreadJob {
 public:
  OnTwoHosts(ThreadRanks& ranks, int rank, int names) : ThreadJob(ranks, rank), names_(names) {}
  std::vector<std::string> gather(const std::string& mine) override {
    if (++gathers_ != names_) return ThreadJob::gather(mine);
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    EXPECT_EQ(mine, host.data());
    return ThreadJob::gather(rank() % 2 == 1 ? mine + "-b" : mine);
  }

 private:
  int names_, gathers_ = 0;
};

/// What `told` says of every rank of a job on two hosts.
template <class Told>
std::vector<int> on_two_hosts(int ranks, int names, Told told) {
  ThreadRanks shared(ranks);
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      OnTwoHosts job(shared, rank, names);
      all[static_cast<std::size_t>(rank)] = told(job);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

class LocalRankTest : public testing::Test {
 protected:
  LocalRankTest() { forget(); }
  ~LocalRankTest() override { forget(); }
  static void forget() {
    for (const char* name :
         {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
      unsetenv(name);
    }
  }
  /// Of a job of two ranks on this host.
  static std::vector<int> numbers() {
    std::vector<int> all(2);
    as_all_ranks(2, [&](Job& job) { all[static_cast<std::size_t>(job.rank())] = local_rank(job); });
    return all;
  }
};

TEST_F(LocalRankTest, CountsTheRanksBeforeItOnItsHost) {
  EXPECT_THAT(on_two_hosts(5, 2, local_rank), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(on_two_hosts(3, 1, count_hosts), ElementsAre(2, 2, 2));
}

TEST_F(LocalRankTest, IsWhatTheLauncherSays) {
  setenv("SLURM_LOCALID", "7", 1);
  EXPECT_THAT(numbers(), ElementsAre(7, 7));
  setenv("MPI_LOCALRANKID", "6", 1);
  EXPECT_THAT(numbers(), ElementsAre(6, 6));
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
  EXPECT_THAT(numbers(), ElementsAre(0, 0));
  setenv("LOCAL_RANK", "", 1);
  EXPECT_THAT(numbers(), ElementsAre(0, 0)) << "an empty variable says nothing";
  setenv("LOCAL_RANK", "4", 1);
  EXPECT_THAT(numbers(), ElementsAre(4, 4));
}

TEST_F(LocalRankTest, IsAWholeNumber) {
  for (const char* text : {"-1", "2x", "x", "99999999999"}) {
    setenv("LOCAL_RANK", text, 1);
    EXPECT_THAT(as_ranks(2, [](Job& job) { local_rank(job); }),
                Each(HasSubstr(fmt::format("LOCAL_RANK={}: expected a whole number from 0", text))))
        << text;
  }
}

/// To rank 1 the launcher has not said its number.
class SomeNotTold : public ThreadJob {
 public:
  using ThreadJob::ThreadJob;
  std::vector<std::string> gather(const std::string& mine) override {
    const std::int64_t not_told = 1;
    const bool first = std::exchange(first_, false);
    return ThreadJob::gather(
        first && rank() == 1
            ? std::string(reinterpret_cast<const char*>(&not_told), sizeof not_told)
            : mine);
  }

 private:
  bool first_ = true;
};

TEST_F(LocalRankTest, IsCountedUnlessEveryRankIsTold) {
  setenv("LOCAL_RANK", "7", 1);
  ThreadRanks shared(3);
  std::vector<int> all(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      SomeNotTold job(shared, rank);
      all[static_cast<std::size_t>(rank)] = local_rank(job);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(all, ElementsAre(0, 1, 2));
}

/// A rank of two; the test is the other one.
class WithOther : public Job {
 public:
  using Other = std::function<double(std::size_t round, double heard)>;
  WithOther(int rank, Other other) : rank_(rank), other_(std::move(other)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return 2; }
  std::string launcher() const override { return ""; }
  std::vector<std::string> gather(const std::string& mine) override {
    gathered.resize(mine.size() / sizeof(double));
    std::memcpy(gathered.data(), mine.data(), mine.size());
    return {};
  }
  std::string broadcast(const std::string& of_first) override { return of_first; }
  void barrier() override {}
  void send(int to, const std::string& message) override {
    EXPECT_EQ(to, 1 - rank_);
    std::memcpy(&sent.emplace_back(), message.data(), sizeof(double));
  }
  std::string receive(int from) override {
    EXPECT_EQ(from, 1 - rank_);
    const double said = other_(received_++, sent.empty() ? 0 : sent.back());
    return {reinterpret_cast<const char*>(&said), sizeof said};
  }
  [[noreturn]] void abort(int) override { std::abort(); }

  std::vector<double> sent, gathered;

 private:
  int rank_;
  Other other_;
  std::size_t received_ = 0;
};

// The peer's clock is 1000 s ahead; only the fourth answer comes at once and tells that.
TEST(TimelineGathererTest, TrustsTheQuickestAnswerMost) {
  WithOther job(0, [](std::size_t round, double heard) {
    if (round == 3) return heard + 1000;
    std::this_thread::sleep_for(round < 3 ? 40ms : 20ms);
    return heard + 2000;
  });
  const TimelineGatherer clocks(job);
  ASSERT_EQ(job.sent.size(), 17U) << "of 16 rounds, and the offset";
  for (std::size_t round = 1; round < 16; ++round) {
    EXPECT_GT(job.sent[round], job.sent[round - 1]);
  }
  EXPECT_GE(job.sent[3], 0.12);
  EXPECT_LT(job.sent[3], 10) << "from when this began";
  EXPECT_NEAR(job.sent[16], 1000, 0.03);
}

TEST(TimelineGathererTest, OtherRanksTellTimesByTheFirstOnesClock) {
  WithOther job(1, [](std::size_t round, double) { return round < 16 ? 0.0 : 1000.0; });
  const Clock::time_point base = Clock::now();
  const TimelineGatherer clocks(job);
  EXPECT_EQ(job.sent.size(), 16U);
  EXPECT_THAT(job.sent, Each(testing::AllOf(testing::Ge(0), testing::Lt(10))));
  const Timeline none = clocks.gather(
      Plan{"plan", 2, {}}, {{base, base + 2s}, {base + 3s, base + 3s}, {base + 1s, base}});
  EXPECT_TRUE(none.ops.empty());
  using testing::DoubleNear;
  EXPECT_THAT(job.gathered, ElementsAre(DoubleNear(-1000, 0.1), DoubleNear(-998, 0.1),
                                        DoubleNear(-997, 0.1), DoubleNear(-997, 0.1), 0, 0))
      << "what did not run has no times";
}

// An exchange of all from second 10 + rank on, then a kernel of rank 1 and one that takes no time.
// Ranks begin to measure at different times, which must not matter.
TEST(TimelineGathererTest, TellsTimesOfAllRanksByOneClock) {
  Plan plan{"plan", 3, {}};
  plan.add(exchange("send", {0, 1, 2}, test::matrix(3, 1, {})));
  plan.add(kernel("fc1", 1, {0}));
  plan.add(kernel("none", 1, {1}));
  const Clock::time_point base = Clock::now();
  as_all_ranks(3, [&](Job& job) {
    std::this_thread::sleep_for(job.rank() * 200ms);
    const TimelineGatherer clocks(job);
    std::vector<Stamp> stamps(3);
    stamps[0] = {base + (10 + job.rank()) * 1s, base + 14s};
    if (job.rank() == 1) {
      stamps[1] = {base + 14s, base + 16s};
      stamps[2] = {base + 15s, base + 15s};
    }
    const Timeline timeline = clocks.gather(plan, stamps);
    if (job.rank() != 0) {
      EXPECT_TRUE(timeline.ops.empty());
      return;
    }
    ASSERT_EQ(timeline.ops.size(), 3U);
    const double tolerance = 0.1;  // of messages between threads, on any machine
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_NEAR(timeline.ops[0][rank].start.value, static_cast<double>(rank), tolerance);
      EXPECT_NEAR(timeline.ops[0][rank].end.value, 4, tolerance);
    }
    EXPECT_EQ(timeline.ops[0][0].start.value, 0);
    ASSERT_EQ(timeline.ops[1].size(), 1U);
    EXPECT_NEAR(timeline.ops[1][0].start.value, 4, tolerance);
    EXPECT_NEAR(timeline.ops[1][0].end.value, 6, tolerance);
    EXPECT_NEAR(timeline.ops[2][0].start.value, 5, tolerance);
    EXPECT_EQ(timeline.ops[2][0].start, timeline.ops[2][0].end);
    EXPECT_EQ(timeline.makespan, timeline.ops[1][0].end);
  });
}

}  // namespace
}  // namespace moesim
