// SPDX-License-Identifier: Apache-2.0
#include "sim/base/stopped_child.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moesim {
namespace {

/// Leaves what waitpid() will tell of the child as it is.
bool is_stopped(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

}  // namespace

bool StoppedChild::given_up(pid_t child) {
  const Clock::time_point now = Clock::now();
  const bool before = std::exchange(stopped_, is_stopped(child));
  if (!stopped_) seen_ = {};
  if (stopped_ && before) seen_ += std::min<Clock::duration>(now - looked_, 2 * stopped_look);
  looked_ = now;
  return seen_ >= limit_;
}

std::string stopped_reason(std::chrono::milliseconds limit) {
  return fmt::format("stopped from outside (SIGSTOP) and not continued within {:g} s",
                     std::chrono::duration<double>(limit).count());
}

bool read_more_of(const ChildProcess& child, std::string& bytes, std::chrono::milliseconds limit) {
  StoppedChild stopped(limit);
  pollfd polled{child.out, POLLIN, 0};
  const auto look = static_cast<int>(std::min(limit, stopped_look).count());
  while (::poll(&polled, 1, look) <= 0) {
    if (!stopped.given_up(child.id)) continue;
    ::kill(child.id, SIGKILL);
    wait_for_end(child.id);
    throw std::runtime_error("the process was " + stopped_reason(limit));
  }
  return read_more(child.out, bytes);
}

}  // namespace moesim
