// SPDX-License-Identifier: Apache-2.0
// Child processes that somebody stops (SIGSTOP): they neither end nor say anything.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "sim/base/processes.h"

namespace moesim {

/// How long a parent that runs itself waits for a stopped child.
inline constexpr std::chrono::seconds stopped_limit(10);
/// How often it looks.
inline constexpr std::chrono::milliseconds stopped_look(1000);

/// Counts the time in which a child was seen stopped. Time in which the parent was stopped as well
/// (Ctrl-Z, a scheduler that suspends a job) does not count; nor do debuggers, which trace.
class StoppedChild {
 public:
  explicit StoppedChild(std::chrono::milliseconds limit = stopped_limit) : limit_(limit) {}

  /// Looks at the child, at least every `stopped_look`. Whether it was stopped for too long.
  bool given_up(pid_t child);

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::milliseconds limit_;
  bool stopped_ = false;
  Clock::time_point looked_ = {};
  Clock::duration seen_ = {};
};

/// "stopped from outside (SIGSTOP) and not continued within 10 s".
std::string stopped_reason(std::chrono::milliseconds limit = stopped_limit);

/// read_more() of a child's pipe that ends a child which stays stopped: then throws
/// std::runtime_error.
bool read_more_of(const ChildProcess& child, std::string& bytes,
                  std::chrono::milliseconds limit = stopped_limit);

}  // namespace moesim
