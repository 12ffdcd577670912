// SPDX-License-Identifier: Apache-2.0
#include "sim/base/processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>

namespace moesim {
namespace {

/// All that a child writes, and its status.
std::pair<std::string, int> outcome_of(const std::function<bool(int out)>& body) {
  const ChildProcess child = start_child(body);
  std::string bytes;
  while (read_more(child.out, bytes)) continue;
  ::close(child.out);
  return {bytes, wait_for_end(child.id)};
}

TEST(StartChild, CarriesMoreThanAPipeHolds) {
  const std::string large(3'000'000, 'x');
  const auto [bytes, status] = outcome_of([&](int out) { return write_all(out, large); });
  EXPECT_EQ(bytes, large);
  EXPECT_EQ(status, 0);
}

TEST(StartChild, TellsHowTheChildEnded) {
  const int refused = outcome_of([](int) { return false; }).second;
  EXPECT_TRUE(WIFEXITED(refused));
  EXPECT_EQ(WEXITSTATUS(refused), 1);
  const int killed = outcome_of([](int) { return ::raise(SIGKILL) == 0; }).second;
  EXPECT_TRUE(WIFSIGNALED(killed));
  EXPECT_EQ(WTERMSIG(killed), SIGKILL);
}

TEST(StartChild, LetsAChildHaveChildren) {
  const auto in_child = [](int out) {
    return write_all(out, outcome_of([](int grandchild_out) {
                            return write_all(grandchild_out, "grandchild");
                          }).first);
  };
  EXPECT_EQ(outcome_of(in_child).first, "grandchild");
}

TEST(StartChild, OtherProgramsDoNotGetItsPipe) {
  const auto closes = [](int end) { return (::fcntl(end, F_GETFD) & FD_CLOEXEC) != 0; };
  const ChildProcess child = start_child([&](int out) { return closes(out); });
  EXPECT_TRUE(closes(child.out));
  ::close(child.out);
  EXPECT_EQ(wait_for_end(child.id), 0);
}

TEST(Frames, AreReadOneByOneWhenTheyAreWhole) {
  const auto [bytes, status] =
      outcome_of([](int out) { return write_frame(out, "first") && write_frame(out, ""); });
  EXPECT_EQ(status, 0);
  std::string come;
  for (std::size_t size = 0; size < sizeof(std::size_t) + 5; ++size) {
    come = bytes.substr(0, size);
    EXPECT_EQ(next_frame(come), std::nullopt) << size;
    EXPECT_EQ(come.size(), size);
  }
  come = bytes;
  EXPECT_EQ(next_frame(come), "first");
  EXPECT_EQ(next_frame(come), "");
  EXPECT_EQ(next_frame(come), std::nullopt);
  EXPECT_EQ(come, "");
}

TEST(RunProgram, TellsItsExitCode) {
  const std::string shell = find_program("sh");
  ASSERT_FALSE(shell.empty());
  EXPECT_EQ(run_program({shell, "-c", "exit 3"}), 3);
  EXPECT_EQ(run_program({shell, "-c", "kill -9 $$"}), -1);
  EXPECT_THROW(run_program({"/no/such/program"}), std::system_error);
  EXPECT_EQ(find_program("no-such-program"), "");
}

TEST(WriteAll, FailsWhereNobodyReads) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  EXPECT_FALSE(write_all(ends[1], "x"));
  ::signal(SIGPIPE, before);
  ::close(ends[1]);
}

}  // namespace
}  // namespace moesim
