// SPDX-License-Identifier: Apache-2.0
// A child process with a pipe back: one byte for success or failure, then the result or message.
#include "sim/engine/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "sim/base/processes.h"

namespace moesim {
namespace {

constexpr char succeeded = '+';
constexpr char failed = '-';

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

bool write_all(int file, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(file, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string read_all(int file) {
  std::string data;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return data;
    data.append(buffer, static_cast<std::size_t>(count));
  }
}

/// SimGrid flushes stdout, and so would write a second copy of what the parent has buffered.
void drop_stdout() {
  const int null = open("/dev/null", O_WRONLY);
  if (null < 0 || dup2(null, STDOUT_FILENO) < 0) fail("cannot redirect stdout to /dev/null");
}

[[noreturn]] void be_child(const std::function<std::string()>& function, int out) {
  bool written = false;
  try {
    drop_stdout();
    written = write_all(out, succeeded + function());
  } catch (const std::exception& error) {
    written = write_all(out, failed + std::string(error.what()));
  }
  // No destructors and no flushing: what the parent had buffered is the parent's to write.
  _exit(written ? 0 : 1);
}

struct Child {
  pid_t id;
  int out;
};

/// Forks with a pipe from the child. One at a time: a child of another thread must not inherit this
/// one's writing end, or reading would last until that child ends as well.
Child start(const std::function<std::string()>& function) {
  static std::mutex starting;
  const std::lock_guard lock(starting);
  int ends[2];
  if (pipe(ends) != 0) fail("cannot make a pipe for the simulation");
  const pid_t id = fork_bound();
  if (id == 0) {
    close(ends[0]);
    be_child(function, ends[1]);
  }
  close(ends[1]);
  if (id < 0) {
    close(ends[0]);
    fail("cannot fork the simulation");
  }
  return {id, ends[0]};
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& function) {
  const Child child = start(function);
  std::string data = read_all(child.out);
  close(child.out);
  int status = 0;
  while (waitpid(child.id, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    throw std::runtime_error(
        fmt::format("the simulation was ended by signal {}", WTERMSIG(status)));
  }
  if (data.empty() || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(
        fmt::format("the simulation ended with status {}", WEXITSTATUS(status)));
  }
  const bool ok = data[0] == succeeded;
  data.erase(0, 1);
  if (!ok) throw std::runtime_error(data);
  return data;
}

}  // namespace moesim
