// SPDX-License-Identifier: Apache-2.0
// A child process with a pipe back: one byte for success or failure, then the result or message.
#include "sim/engine/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <stdexcept>
#include <system_error>

#include "sim/base/error.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

constexpr char succeeded = '+';
constexpr char failed = '-';

/// SimGrid flushes stdout, and so would write a second copy of what the parent has buffered.
void drop_stdout() {
  const int null = open("/dev/null", O_WRONLY);
  if (null < 0 || dup2(null, STDOUT_FILENO) < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot redirect stdout to /dev/null");
  }
}

/// Whether all of what it has to tell could be written.
bool be_child(const std::function<std::string()>& function, int out) {
  try {
    drop_stdout();
    return write_all(out, succeeded + function());
  } catch (const std::exception& error) {
    return write_all(out, failed + cause_of(error));
  }
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& function) {
  const ChildProcess child = start_child([&](int out) { return be_child(function, out); });
  std::string data;
  try {
    while (read_more_of(child, data)) continue;
  } catch (const std::exception& e) {
    close(child.out);
    throw std::runtime_error(fmt::format("the simulation: {}", e.what()));
  }
  close(child.out);
  const int status = wait_for_end(child.id);
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
