// SPDX-License-Identifier: Apache-2.0
// Who is woken by which change of a run, and what becomes of runs whose process stands still, dies
// or is told to end.
#include "sim/explore/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include "sim/base/temporary_folder.h"
#include "sim/explore/explore.h"
#include "tests/explore/processes_seen.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using Stage = RunState::Stage;

constexpr std::uint64_t only_the_end = std::numeric_limits<std::uint64_t>::max();
constexpr std::chrono::seconds very_long(20);
/// What is told at once comes sooner than this on any machine.
constexpr std::chrono::seconds at_once(10);

const char* const wrong_request = "{}";
/// Minutes of work.
const char* const endless_request =
    R"({"base": "iteration", "flags": {"policy": ["alltoall", "llep"]},
        "set": ["topology:h100-rail.nodes=256", "batch.global=16384"]})";

class WorkingRuns : public ::testing::Test {
 protected:
  /// Acts in a thread of its own while runs are simulated.
  void while_they_work(const std::function<void()>& actions) {
    std::thread acting([&] {
      EXPECT_EQ(end_of(runs_.start("", -1, wrong_request)).stage, Stage::failed);  // it works now
      actions();
      ::kill(::getpid(), SIGTERM);
    });
    EXPECT_EQ(runs_.work(), SIGTERM);
    acting.join();
  }
  /// The state of a run when it has ended.
  RunState end_of(std::int64_t run) {
    const auto before = std::chrono::steady_clock::now();
    RunState state = *runs_.wait(run, only_the_end, very_long);
    EXPECT_LT(std::chrono::steady_clock::now() - before, very_long) << "nobody told";
    return state;
  }
  /// Starts a run of minutes and returns when its process is at it.
  std::int64_t begin_endless() {
    const std::int64_t run = runs_.start("", -1, endless_request);
    const auto before = std::chrono::steady_clock::now();
    EXPECT_GE(runs_.wait(run, 1, very_long)->change, 2U) << "it says what it opened";
    EXPECT_LT(std::chrono::steady_clock::now() - before, very_long) << "nobody told";
    return run;
  }
  /// Whether somebody who waits for the end of a run hears of it at once.
  bool is_told(std::int64_t run, const std::function<void()>& action) {
    std::chrono::steady_clock::duration took = {};
    std::thread waiting([&] {
      const auto before = std::chrono::steady_clock::now();
      runs_.wait(run, only_the_end, very_long);
      took = std::chrono::steady_clock::now() - before;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // so that it waits
    action();
    waiting.join();
    return took < at_once;
  }

  TemporaryFolder drops_;
  Runs runs_{{"1.2", {}, drops_.path(), 1}};
};

TEST_F(WorkingRuns, ThatAreWithdrawnTellThoseWhoWait) {
  const std::int64_t first = runs_.start("me", -1, "{}"), other = runs_.start("", -1, "{}");
  EXPECT_TRUE(is_told(first, [&] { runs_.start("me", -1, "{}"); })) << "replaced";
  EXPECT_TRUE(is_told(other, [&] { runs_.cancel(other); })) << "cancelled";
}

TEST_F(WorkingRuns, TellThoseWhoWaitWhenThePageCloses) {
  std::int64_t run = 0;
  std::thread waiting;
  while_they_work([&] {
    run = begin_endless();
    waiting = std::thread([&] { EXPECT_TRUE(is_told(run, [] {})); });
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  });
  waiting.join();
}

/// Without being woken, the loop looks every 200 ms.
TEST_F(WorkingRuns, BeginAtOnce) {
  while_they_work([&] {
    bool quick = false;
    for (int i = 0; i < 30 && !quick; ++i) {
      const auto before = std::chrono::steady_clock::now();
      end_of(runs_.start("", -1, wrong_request));
      quick = std::chrono::steady_clock::now() - before < std::chrono::milliseconds(150);
    }
    EXPECT_TRUE(quick);
  });
}

TEST_F(WorkingRuns, OfAProcessThatStandsStillAreAnsweredForAllTheSame) {
  PageRoutes routes(Access("t", 1), {"1.2", drops_.path(), [] { return "{}"; }}, runs_);
  while_they_work([&] {
    const pid_t process = only_child();
    ASSERT_TRUE(stop_process(process));
    const HttpAnswer begun = routes.answer({"POST", "/api/run", {}, {}, wrong_request});
    EXPECT_THAT(begun.body, HasSubstr(R"({"id":2,"state":)"));
    EXPECT_TRUE(comes_true(
        [&] { return runs_.wait(2, 0, std::chrono::milliseconds(0))->stage == Stage::running; }));
    bool quick = false;  // who has seen nothing need not wait for two seconds
    for (int i = 0; i < 5 && !quick; ++i) {
      const auto before = std::chrono::steady_clock::now();
      const HttpAnswer seen = routes.answer({"GET", "/api/run", {{"id", "2"}}, {}});
      EXPECT_THAT(seen.body, HasSubstr(R"({"id":2,"state":"running","change":1)"));
      quick = std::chrono::steady_clock::now() - before < std::chrono::seconds(1);
    }
    EXPECT_TRUE(quick);
    ::kill(process, SIGCONT);
    EXPECT_EQ(end_of(2).stage, Stage::failed);
  });
}

TEST_F(WorkingRuns, ThatAreHandedOutTellThoseWhoWait) {
  while_they_work([&] {
    const pid_t process = only_child();
    ASSERT_TRUE(stop_process(process));
    const std::int64_t run = runs_.start("", -1, wrong_request);
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(runs_.wait(run, 0, very_long)->stage, Stage::running);
    EXPECT_LT(std::chrono::steady_clock::now() - before, at_once);
    ::kill(process, SIGCONT);
    EXPECT_EQ(end_of(run).stage, Stage::failed);
  });
}

TEST_F(WorkingRuns, ThatAreCancelledLeaveTheirProcessTime) {
  while_they_work([&] {
    const std::int64_t run = begin_endless();
    const pid_t process = only_child();
    ASSERT_TRUE(stop_process(process));
    const auto told = std::chrono::steady_clock::now();
    runs_.cancel(run);
    EXPECT_TRUE(comes_true([&] { return waits_for_sigterm(process); }));
    runs_.cancel(run);  // the loop looks again
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(process, SIGCONT);
    const RunState state = end_of(run);
    EXPECT_EQ(state.stage, Stage::cancelled);
    EXPECT_EQ(state.error, "");
    if (std::chrono::steady_clock::now() - told < std::chrono::seconds(2)) {
      EXPECT_EQ(only_child(), process) << "it is not replaced";
    }
    EXPECT_EQ(end_of(runs_.start("", -1, wrong_request)).stage, Stage::failed);
  });
}

TEST_F(WorkingRuns, ThatAreCancelledBeforeTheyAreReadEndAllTheSame) {
  while_they_work([&] {
    bool stays = false;  // the process, which is replaced if it takes too long
    for (int i = 0; i < 5 && !stays; ++i) {
      const pid_t process = only_child();
      ASSERT_TRUE(stop_process(process));
      const std::int64_t run = runs_.start("", -1, endless_request);
      EXPECT_EQ(runs_.wait(run, 0, very_long)->stage, Stage::running);
      runs_.cancel(run);
      EXPECT_TRUE(comes_true([&] { return waits_for_sigterm(process); }));
      ::kill(process, SIGCONT);
      EXPECT_EQ(end_of(run).stage, Stage::cancelled);
      stays = only_child() == process;
    }
    EXPECT_TRUE(stays);
  });
}

TEST_F(WorkingRuns, WhoseProcessDiesFailUnlessTheyWereCancelled) {
  while_they_work([&] {
    std::int64_t run = begin_endless();
    const pid_t first = only_child();
    ::kill(first, SIGKILL);
    const RunState failed = end_of(run);
    EXPECT_EQ(failed.stage, Stage::failed);
    EXPECT_EQ(failed.error,
              "{\"error\":\"the process that simulates has died; try again\","
              "\"kind\":\"failure\"}");
    run = begin_endless();
    const pid_t second = only_child();
    EXPECT_NE(second, first);
    ASSERT_TRUE(stop_process(second));
    runs_.cancel(run);
    EXPECT_TRUE(comes_true([&] { return waits_for_sigterm(second); }));
    ::kill(second, SIGKILL);
    const RunState cancelled = end_of(run);
    EXPECT_EQ(cancelled.stage, Stage::cancelled);
    EXPECT_EQ(cancelled.error, "");
    EXPECT_EQ(end_of(runs_.start("", -1, wrong_request)).stage, Stage::failed);
  });
}

int files_that_are_open() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST_F(WorkingRuns, OutliveAProcessThatDiesBetweenThem) {
  while_they_work([&] {
    const int before = files_that_are_open();
    for (int i = 0; i < 2; ++i) {
      const pid_t process = only_child();
      ::kill(process, SIGKILL);
      EXPECT_TRUE(comes_true([&] {
        const pid_t now = only_child();
        return now > 0 && now != process;
      })) << "it is replaced, and the dead one is gone";
      EXPECT_EQ(end_of(runs_.start("", -1, wrong_request)).stage, Stage::failed);
    }
    EXPECT_EQ(files_that_are_open(), before);
  });
}

TEST_F(WorkingRuns, AreNotWhatASignalBetweenThemMeans) {
  while_they_work([&] {
    const pid_t process = only_child();
    for (const int signal : {SIGTERM, SIGINT}) {
      ::kill(process, signal);
      const RunState state = end_of(runs_.start("", -1, wrong_request));
      EXPECT_EQ(state.stage, Stage::failed);
      EXPECT_THAT(state.error, HasSubstr(R"("kind":"input")"));
      EXPECT_EQ(only_child(), process);
    }
  });
}

}  // namespace
}  // namespace moesim
