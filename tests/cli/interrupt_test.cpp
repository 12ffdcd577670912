// SPDX-License-Identifier: Apache-2.0
// Runs that end half-way keep the cases that are done, and nothing half-written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
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
  EXPECT_EQ(
      outcome.err,
      "moesim: the run failed: two-by-two megatron port: the worker was killed by signal 9, as "
      "the kernel does if memory runs out\n");
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(Interrupt, AStoppedWorkerIsWaitedForALimitedTime) {
  const Scratch scratch;
  Running run(long_run(scratch.file("r.json")), {});
  const pid_t worker = run.wait_for_child();
  ASSERT_GT(worker, 0);
  ASSERT_EQ(::kill(worker, SIGSTOP), 0);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "moesim: the run failed: two-by-two megatron port: the worker was stopped from outside "
            "(SIGSTOP) and not continued within 10 s\n");
  EXPECT_TRUE(run.members().empty());
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

/// Two policies on two clusters, one worker; the second case begins when this returns.
std::unique_ptr<Running> second_of_four(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--topology",        "pair", "--repeat",  "1500",
                                    "--tokens-per-rank", "2",    "--workers", "1"};
  words.insert(words.end(), more.begin(), more.end());
  auto run = std::make_unique<Running>(
      on_hand_trace("compare", "two-by-two", {"megatron", "dedup"}, words), Surroundings{});
  const pid_t first = run->wait_for_child();
  EXPECT_GT(run->wait_for_child(first), 0);
  return run;
}

TEST(Interrupt, KeepsTheCasesThatAreDone) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Scratch scratch;
    const auto run =
        second_of_four({"--json", scratch.file("r.json"), "--report", scratch.file("r.html"),
                        "--timeline", scratch.file("t.json"), "--format", "csv"});
    ASSERT_EQ(::kill(-run->pid(), signal), 0);  // a terminal sends it to the whole group
    const Outcome outcome = run->wait();
    EXPECT_EQ(outcome.signal, signal);  // which shells know as 128 + signal
    EXPECT_TRUE(run->members().empty());
    EXPECT_THAT(outcome.out, testing::HasSubstr("\ntwo-by-two,megatron,"));
    EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("dedup")));
    EXPECT_THAT(
        outcome.err,
        testing::AllOf(
            testing::HasSubstr(
                "# dedup on two-by-two was not run: the comparison was interrupted\n"),
            testing::HasSubstr("# dedup on pair was not run: the comparison was interrupted\n"),
            testing::HasSubstr("# interrupted: 1 of 4 cases are done\n"),
            testing::EndsWith("moesim: interrupted: 1 of 4 cases are done\n")));
    const auto document = nlohmann::json::parse(content(scratch.file("r.json")));
    EXPECT_EQ(document["interrupted"], nlohmann::json::parse(R"({"done": 1, "cases": 4})"));
    EXPECT_EQ(document["cases"].size(), 4u);
    EXPECT_FALSE(document["cases"][0].contains("interrupted"));
    EXPECT_EQ(document["cases"][0]["steps"].get<int>() % 1500, 0);
    for (int i = 1; i < 4; ++i) EXPECT_EQ(document["cases"][i]["interrupted"], true) << i;
    EXPECT_THAT(content(scratch.file("r.html")), testing::HasSubstr("moesim-report"));
    EXPECT_FALSE(nlohmann::json::parse(content(scratch.file("t.json")))["traceEvents"].empty());
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 3);
  }
}

TEST(Interrupt, ComparesNothingWithWhatWasExpected) {
  const Scratch scratch;
  const Outcome whole = run_moesim(on_hand_trace("compare", "two-by-two", {"megatron"},
                                                 {"--json", scratch.file("expected.json")}));
  ASSERT_EQ(whole.code, 0);
  const auto run = second_of_four({"--expect", scratch.file("expected.json")});
  ASSERT_EQ(::kill(run->pid(), SIGINT), 0);
  const Outcome outcome = run->wait();
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_THAT(outcome.out, testing::HasSubstr("1 of 4 cases are done; not compared with "));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("moved")));
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
  EXPECT_EQ(outcome.err, "moesim: interrupted before a case was done; nothing was written\n");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

/// Simulations of seconds each, two at a time, each in a process below that of its policy.
std::vector<std::string> long_simulations(const std::string& json) {
  return {"compare",
          "--topology",
          "h100-rail",
          "--model",
          "gpt-oss-20b",
          "--trace",
          "tiny-moe-train",
          "--policy",
          "alltoall",
          "--policy",
          "dedup",
          "--set",
          "topology.nodes=8",
          "--ep",
          "32",
          "--layers",
          "recorded",
          "--repeat",
          "8",
          "--fidelity",
          "simgrid",
          "--workers",
          "2",
          "--json",
          json};
}

/// Waits until at least `wanted` processes of the run are there, at most so many seconds.
bool wait_for(const Running& run, std::size_t wanted, double seconds) {
  for (double waited = 0; waited < seconds; waited += 0.01) {
    if (run.members().size() >= wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// What is left of a run a second after its first process ended.
std::size_t left_of(const Running& run) {
  for (int i = 0; i < 100 && !run.members().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return run.members().size();
}

TEST(Interrupt, OfTheFirstProcessAloneEndsEverySimulation) {
  const Scratch scratch;
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    Running run(long_simulations(scratch.file("r.json")), {.data = MOESIM_ROOT});
    ASSERT_TRUE(wait_for(run, 5, 60)) << "no simulation began";
    ASSERT_EQ(::kill(run.pid(), signal), 0);
    EXPECT_EQ(run.wait().signal, signal);
    EXPECT_EQ(left_of(run), 0u) << "signal " << signal;
    EXPECT_TRUE(fs::is_empty(scratch.path()));
  }
}

TEST(Interrupt, AtAnyMomentLeavesNoProcess) {
  const Scratch scratch;
  for (const int milliseconds : {0, 5, 10, 20, 40, 80, 160}) {
    for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
      Running run(long_run(scratch.file("r.json")), {});
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      ASSERT_EQ(::kill(run.pid(), signal), 0);
      EXPECT_EQ(run.wait().signal, signal);
      EXPECT_EQ(left_of(run), 0u) << signal << " after " << milliseconds;
    }
  }
}

}  // namespace
}  // namespace moesim
