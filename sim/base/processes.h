// SPDX-License-Identifier: Apache-2.0
// Child processes that never outlive what started them, and what comes through their pipes. A child
// that somebody stops (SIGSTOP) neither ends nor says anything.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// fork(), with the child bound to the thread that calls: when that ends, for whatever reason, the
/// kernel kills the child. Returns as fork() does; flush what is buffered before.
pid_t fork_bound();

/// A child and the end of its pipe that the parent reads.
struct ChildProcess {
  pid_t id = -1;
  int out = -1;
};

/// Forks a child that runs `body` with the end of a pipe (make_pipe) to write to, and ends with
/// status 0 if that returns true, else 1; without destructors and flushing, as what the parent had
/// buffered is the parent's to write. Throws std::system_error. Callable from several threads.
ChildProcess start_child(const std::function<bool(int out)>& body);

/// The status of a child that ended, as waitpid() tells it. Waits until then.
int wait_for_end(pid_t child);

/// Writes all of it in as many calls as that takes; false if it fails (errno says why).
bool write_all(int file, std::string_view bytes);

/// Waits for the next bytes and appends them; false at the end of the pipe.
bool read_more(int file, std::string& bytes);

/// Bytes that arrive as a whole: their length, then they. False as of write_all().
bool write_frame(int file, std::string_view frame);

/// The first frame that has arrived as a whole; it leaves `bytes`.
std::optional<std::string> next_frame(std::string& bytes);

/// The first program of that name in the folders of PATH; empty when there is none.
std::string find_program(const std::string& name);

/// Runs the program words[0], a path, with the words as its arguments. Returns its exit code, -1
/// when a signal ended it. Throws std::system_error when it cannot be started.
int run_program(const std::vector<std::string>& words);

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
