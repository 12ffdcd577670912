// SPDX-License-Identifier: Apache-2.0
// Runs that end half-way leave no result behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

/// Thousands of steps: long enough to be met half-way.
std::vector<std::string> long_run(const std::string& json) {
  return on_hand_trace(
      "compare", "two-by-two", {"megatron"},
      {"--repeat", "10000", "--tokens-per-rank", "2", "--workers", "1", "--json", json});
}

TEST(Interrupt, AKilledWorkerFailsTheRun) {
  const Scratch scratch;
  Running run(long_run(scratch.file("r.json")), {});
  const pid_t worker = run.wait_for_child();
  ASSERT_GT(worker, 0);
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "moesim: the run failed: two-by-two megatron port: worker killed by signal 9\n");
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(Interrupt, ControlCLeavesNoFileAndNoWorker) {
  const Scratch scratch;
  Running run(long_run(scratch.file("r.json")), {});
  const pid_t worker = run.wait_for_child();
  ASSERT_GT(worker, 0);
  ASSERT_EQ(::kill(-run.pid(), SIGINT), 0);  // a terminal sends it to the whole group
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

/// Kills the first process alone, at various moments, and expects all others to be gone soon.
void expect_no_orphan(int signal, int milliseconds) {
  const Scratch scratch;
  std::vector<std::string> words = long_run(scratch.file("r.json"));
  *(std::find(words.begin(), words.end(), "--workers") + 1) = "2";
  words.insert(words.end(), {"--policy", "dedup"});
  Running run(words, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  ASSERT_EQ(::kill(run.pid(), signal), 0);
  EXPECT_EQ(run.wait().signal, signal);
  std::size_t left = 1;
  for (int i = 0; i < 100 && left > 0; ++i) {
    left = run.members().size();
    if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(left, 0u) << "signal " << signal << " after " << milliseconds << " ms";
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(Interrupt, LeavesNoProcessBehind) {
  for (const int milliseconds : {0, 15, 40, 80, 120, 200}) {
    for (const int signal : {SIGTERM, SIGINT, SIGKILL}) expect_no_orphan(signal, milliseconds);
  }
}

}  // namespace
}  // namespace moesim
