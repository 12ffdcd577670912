// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace moesim {
namespace {

using testing::ThrowsMessage;

TEST(RunInChild, ReturnsWhatTheFunctionReturns) {
  EXPECT_EQ(run_in_child([] { return std::string("a\0b", 3); }), std::string("a\0b", 3));
  EXPECT_EQ(run_in_child([] { return std::string(); }), "");
  const std::string large(3'000'000, 'x');  // more than a pipe holds
  EXPECT_EQ(run_in_child([&] { return large; }), large);
}

int next_file() {
  const int file = dup(STDIN_FILENO);
  close(file);
  return file;
}

TEST(RunInChild, LeavesNoFileOpen) {
  const int before = next_file();
  run_in_child([] { return std::string("done"); });
  EXPECT_EQ(next_file(), before);
}

TEST(RunInChild, KeepsTheParentAsItIs) {
  int calls = 0;
  run_in_child([&] { return std::to_string(++calls); });
  EXPECT_EQ(calls, 0);
}

TEST(RunInChild, WritesNothingThatTheParentHasBuffered) {
  testing::internal::CaptureStdout();
  std::fputs("once", stdout);
  run_in_child([] { return std::to_string(std::fflush(stdout)); });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "once");
}

TEST(RunInChild, ThrowsTheFunctionsMessage) {
  EXPECT_THAT([] { run_in_child([]() -> std::string { throw std::logic_error("no such link"); }); },
              ThrowsMessage<std::runtime_error>("no such link"));
}

TEST(RunInChild, TellsHowAChildDied) {
  EXPECT_THAT(
      [] {
        run_in_child([]() -> std::string {
          raise(SIGKILL), pause();
          return "";
        });
      },
      ThrowsMessage<std::runtime_error>("the simulation was ended by signal 9"));
  EXPECT_THAT([] { run_in_child([]() -> std::string { _exit(3); }); },
              ThrowsMessage<std::runtime_error>("the simulation ended with status 3"));
}

}  // namespace
}  // namespace moesim
