// SPDX-License-Identifier: Apache-2.0
// Pieces of work among child processes: each ends once, whoever dies.
#include "sim/run/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <set>
#include <utility>

namespace moesim {
namespace {

constexpr std::int64_t pieces = 40;

struct Ended {
  std::map<std::int64_t, int> frames;     // by piece
  std::multiset<std::int64_t> lost;       // pieces whose worker died
  std::set<std::string> processes, hows;  // who ran pieces; how workers died
};

/// Every piece tells its process twice; number 7 and its worker die so many times.
Ended run_all(int workers, bool kept, std::size_t deaths) {
  Ended ended;
  std::int64_t next = 0;
  int deadly[2];
  if (::pipe(deadly) != 0) return ended;
  for (std::size_t i = 0; i < deaths; ++i) EXPECT_EQ(::write(deadly[1], "x", 1), 1);
  ::close(deadly[1]);
  const auto run = [&](std::int64_t piece, const PoolWork::Tell& tell) {
    char death = 0;
    if (piece == 7 && ::read(deadly[0], &death, 1) == 1) ::raise(SIGKILL);
    const std::string process = std::to_string(::getpid());
    return tell(process) && tell(process);
  };
  const auto told = [&](std::int64_t piece, const std::string& frame) {
    ended.processes.insert(frame);
    return ++ended.frames[piece] == 2;
  };
  const auto lost = [&](std::int64_t piece, const std::string& how) {
    ended.hows.insert(how);
    return ended.lost.insert(piece), ended.lost.count(piece) < 2;
  };
  WorkerPool pool({.next = [&] { return next < pieces ? std::optional(next++) : std::nullopt; },
                   .run = run,
                   .told = told,
                   .lost = lost,
                   .workers = workers,
                   .kept = kept});
  while (!pool.done()) pool.wait(std::chrono::milliseconds(200));
  ::close(deadly[0]);
  return ended;
}

TEST(WorkerPool, EndsEveryPieceOnce) {
  for (const bool kept : {true, false}) {
    for (const int workers : {1, 3, 60}) {
      const Ended ended = run_all(workers, kept, 0);
      ASSERT_EQ(ended.frames.size(), static_cast<std::size_t>(pieces));
      for (const auto& [piece, frames] : ended.frames) EXPECT_EQ(frames, 2) << piece;
      EXPECT_THAT(ended.lost, testing::IsEmpty());
      const std::size_t processes = ended.processes.size();
      EXPECT_LE(processes, static_cast<std::size_t>(kept ? workers : pieces));
      EXPECT_GE(processes, static_cast<std::size_t>(kept ? 1 : pieces));
    }
  }
}

TEST(WorkerPool, GivesAPieceToAnotherWorkerIfItsOwnDies) {
  for (const bool kept : {true, false}) {
    const Ended once = run_all(2, kept, 1);
    EXPECT_EQ(once.frames.size(), static_cast<std::size_t>(pieces));
    EXPECT_THAT(once.lost, testing::ElementsAre(7));
    const Ended twice = run_all(2, kept, 2);
    EXPECT_EQ(twice.frames.size(), static_cast<std::size_t>(pieces) - 1);
    EXPECT_EQ(twice.frames.count(7), 0u);
    EXPECT_THAT(twice.lost, testing::ElementsAre(7, 7));
    EXPECT_THAT(twice.hows, testing::ElementsAre("the worker was killed by signal 9, as the kernel "
                                                 "does if memory runs out"));
  }
}

/// The second of two workers dies with pieces 1 and 3 while the first still has to read that it was
/// told to end: that one must get none of them.
TEST(WorkerPool, GivesNothingToAWorkerThatWasToldToEnd) {
  constexpr std::int64_t last = 4;
  int die[2];
  ASSERT_EQ(::pipe(die), 0);
  std::int64_t next = 0;
  std::multiset<std::int64_t> ended, lost;
  const auto run = [&](std::int64_t piece, const PoolWork::Tell& tell) {
    char death = 0;
    if (piece == 1 && ::read(die[0], &death, 1) == 1 && death == 'x') ::raise(SIGKILL);
    const bool heard = tell("");
    if (piece == last) ::usleep(200'000);
    return heard;
  };
  const auto told = [&](std::int64_t piece, const std::string&) {
    ended.insert(piece);
    if (piece == last) {
      EXPECT_EQ(::write(die[1], "xy", 2), 2);
    }
    return true;
  };
  WorkerPool pool({.next = [&] { return next <= last ? std::optional(next++) : std::nullopt; },
                   .run = run,
                   .told = told,
                   .lost =
                       [&](std::int64_t piece, const std::string&) {
                         lost.insert(piece);
                         return lost.size() < 9;
                       },
                   .workers = 2});
  while (!pool.done()) pool.wait(std::chrono::milliseconds(200));
  ::close(die[0]);
  ::close(die[1]);
  EXPECT_THAT(lost, testing::ElementsAre(1));
  EXPECT_THAT(ended, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(WorkerPool, IsNotHeldUpByASignal) {
  struct sigaction caught = {}, before = {};
  caught.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &caught, &before);
  bool next = true, heard = false;
  WorkerPool pool({.next =
                       [&] {
                         return std::exchange(next, false) ? std::optional(std::int64_t{0})
                                                           : std::nullopt;
                       },
                   .run =
                       [](std::int64_t, const PoolWork::Tell& tell) {
                         for (int i = 0; i < 50; ++i)
                           ::kill(::getppid(), SIGUSR1), ::usleep(10'000);
                         return tell("");
                       },
                   .told = [&](std::int64_t, const std::string&) { return heard = true; },
                   .lost = [](std::int64_t, const std::string&) { return false; },
                   .workers = 1});
  pool.wait(std::chrono::hours(1));
  EXPECT_FALSE(heard);
  while (!pool.done()) pool.wait(std::chrono::hours(1));
  EXPECT_TRUE(heard);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(WorkerPool, EndsAWorkerThatStaysStopped) {
  bool next = true;
  std::string reason;
  WorkerPool pool(
      {.next =
           [&] {
             return std::exchange(next, false) ? std::optional(std::int64_t{0}) : std::nullopt;
           },
       .run = [](std::int64_t, const PoolWork::Tell&) { return ::raise(SIGSTOP) == 0; },
       .told = [](std::int64_t, const std::string&) { return true; },
       .lost = [&](std::int64_t, const std::string& how) { return reason = how, false; },
       .workers = 1,
       .patience = std::chrono::milliseconds(20)});
  while (!pool.done()) pool.wait(std::chrono::milliseconds(5));
  EXPECT_EQ(reason,
            "the worker was stopped from outside (SIGSTOP) and not continued within 0.02 s");
}

TEST(WorkerPool, HandsOutASecondPieceBeforeTheFirstEnds) {
  int wake[2];
  ASSERT_EQ(::pipe(wake), 0);
  std::int64_t next = 0;
  std::vector<std::int64_t> ended;
  WorkerPool pool(
      {.next = [&] { return next < 3 ? std::optional(next++) : std::nullopt; },
       .run =
           [&](std::int64_t piece, const PoolWork::Tell& tell) {
             char byte = 0;
             return (piece > 0 || ::read(wake[0], &byte, 1) == 1) && tell("");
           },
       .told = [&](std::int64_t piece, const std::string&) { return ended.push_back(piece), true; },
       .lost = [](std::int64_t, const std::string&) { return false; },
       .workers = 1});
  pool.wait(std::chrono::milliseconds(1));
  EXPECT_EQ(next, 2) << "the worker has two pieces";
  EXPECT_EQ(::write(wake[1], "x", 1), 1);
  while (!pool.done()) pool.wait(std::chrono::milliseconds(200));
  EXPECT_THAT(ended, testing::ElementsAre(0, 1, 2));
  for (const int end : wake) ::close(end);
}

TEST(WorkerPool, LeavesSignalsThatStopToTheParent) {
  bool next = true;
  std::string frame, lost;
  WorkerPool pool(
      {.next =
           [&] {
             return std::exchange(next, false) ? std::optional(std::int64_t{5}) : std::nullopt;
           },
       .run =
           [](std::int64_t piece, const PoolWork::Tell& tell) {
             ::raise(SIGINT);
             ::raise(SIGTERM);
             return tell(std::to_string(piece));
           },
       .told = [&](std::int64_t, const std::string& text) { return frame = text, true; },
       .lost = [&](std::int64_t, const std::string& how) { return lost = how, false; },
       .workers = 1});
  while (!pool.done()) pool.wait(std::chrono::hours(1));
  EXPECT_EQ(frame, "5");
  EXPECT_EQ(lost, "");
}

TEST(WorkerPool, OfNothingEndsAtOnce) {
  for (const int workers : {0, 1}) {
    WorkerPool pool({.next = [] { return std::optional<std::int64_t>(); },
                     .run = [](std::int64_t, const PoolWork::Tell&) { return true; },
                     .told = [](std::int64_t, const std::string&) { return true; },
                     .lost = [](std::int64_t, const std::string&) { return false; },
                     .workers = workers});
    pool.wait(std::chrono::hours(1));
    EXPECT_TRUE(pool.done());
  }
}

}  // namespace
}  // namespace moesim
