// SPDX-License-Identifier: Apache-2.0
// A child that is started while its parent watches for signals has a watch of its own.
#include "sim/base/stop_signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace moesim {
namespace {

bool is_readable(int file) {
  pollfd polled = {file, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

TEST(StopSignals, AChildHasItsOwn) {
  const StopSignals signals;
  const pid_t child = ::fork();
  if (child == 0) {
    const StopSignals own;
    const bool none = own.caught() == 0;
    ::raise(SIGTERM);
    ::_exit(none && own.caught() == SIGTERM && is_readable(own.file()) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(signals.caught(), 0);
  EXPECT_FALSE(is_readable(signals.file()));
  ::raise(SIGTERM);
  EXPECT_EQ(signals.caught(), SIGTERM);
}

TEST(StopSignals, ANewWatchForgetsWhatTheLastOneSaw) {
  {
    const StopSignals last;
    ::raise(SIGTERM);
  }
  const StopSignals signals;
  EXPECT_EQ(signals.caught(), 0);
  EXPECT_FALSE(is_readable(signals.file()));
}

void ignored_by_this_test(int) {}

TEST(StopSignals, HandlersComeBackWithTheLastWatch) {
  constexpr int watched[] = {SIGINT, SIGTERM};
  for (const int signal : watched) ::signal(signal, ignored_by_this_test);
  {
    const StopSignals outer;
    { const StopSignals inner; }
    for (const int signal : watched) {
      ::raise(signal);
      EXPECT_EQ(outer.caught(), signal);
    }
  }
  for (const int signal : watched) EXPECT_EQ(::signal(signal, SIG_DFL), ignored_by_this_test);
}

}  // namespace
}  // namespace moesim
