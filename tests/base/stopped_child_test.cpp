// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

using namespace std::chrono_literals;

/// Says so and stops itself; what comes after is seen only by who continues it.
bool stop_and_go_on(int out) {
  return write_all(out, "before ") && ::raise(SIGSTOP) == 0 && write_all(out, "after");
}

TEST(StoppedChild, IsEndedAndNamed) {
  const ChildProcess child = start_child(stop_and_go_on);
  std::string bytes;
  try {
    while (read_more_of(child, bytes, 150ms)) continue;
    ADD_FAILURE() << "waited to the end";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(),
                 "the process was stopped from outside (SIGSTOP) and not continued within 0.15 s");
  }
  ::close(child.out);
  EXPECT_EQ(bytes, "before ");
  EXPECT_NE(::kill(child.id, 0), 0) << "it is still there";
}

TEST(StoppedChild, GoesOnWhenItIsContinued) {
  const ChildProcess child = start_child(stop_and_go_on);
  std::string bytes;
  ASSERT_TRUE(read_more_of(child, bytes));
  std::thread continuing([&] {
    std::this_thread::sleep_for(200ms);
    ::kill(child.id, SIGCONT);
  });
  while (read_more_of(child, bytes, 5'000ms)) continue;
  continuing.join();
  ::close(child.out);
  EXPECT_EQ(bytes, "before after");
  EXPECT_EQ(wait_for_end(child.id), 0);
}

TEST(StoppedChild, CountsOnlyWhatItSees) {
  const ChildProcess child = start_child(stop_and_go_on);
  std::string bytes;
  ASSERT_TRUE(read_more_of(child, bytes));
  siginfo_t is_stopped{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.id), &is_stopped, WSTOPPED | WNOWAIT), 0);
  StoppedChild stopped(1'900ms);  // a look adds at most 2 s
  while (!stopped.given_up(child.id) && bytes.size() < 10) {
    bytes += '.';
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(bytes.size(), 10u) << "given up at once";
  ::kill(child.id, SIGKILL);
  wait_for_end(child.id);
  EXPECT_FALSE(stopped.given_up(child.id)) << "it has ended";
  ::close(child.out);
}

TEST(CauseOf, SaysThatMemoryRanOut) {
  EXPECT_TRUE(cause_of(std::bad_alloc()).starts_with("out of memory"));
  EXPECT_EQ(cause_of(std::runtime_error("why")), "why");
}

}  // namespace
}  // namespace moesim
