// SPDX-License-Identifier: Apache-2.0
#include "sim/base/processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "sim/base/platform.h"
#include "sim/base/wire.h"

namespace moesim {
namespace {

/// Nothing that `body` throws gets out of it into what the parent was doing.
[[noreturn]] void be_child(const std::function<bool(int out)>& body, int out) noexcept {
  ::_exit(body(out) ? 0 : 1);
}

/// Leaves what waitpid() will tell of the child as it is.
bool is_stopped(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

}  // namespace

pid_t fork_bound() {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  end_with(parent);
  return 0;
}

ChildProcess start_child(const std::function<bool(int out)>& body) {
  // One at a time: a child of another thread must not inherit this one's writing end, or reading
  // would last until that child ends as well.
  static std::mutex starting;
  std::unique_lock lock(starting);
  const std::array<int, 2> ends = make_pipe();
  const pid_t id = fork_bound();
  if (id == 0) {
    lock.unlock();  // for children of its own
    ::close(ends[0]);
    be_child(body, ends[1]);
  }
  const int failure = errno;
  ::close(ends[1]);
  if (id < 0) {
    ::close(ends[0]);
    throw std::system_error(failure, std::generic_category(), "cannot start a child process");
  }
  return {id, ends[0]};
}

int wait_for_end(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_more(int file, std::string& bytes) {
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
}

bool write_frame(int file, std::string_view frame) {
  return write_all(file, to_bytes(std::string(frame)));
}

std::optional<std::string> next_frame(std::string& bytes) {
  std::size_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::string_view rest = bytes;
  take(rest, size);
  if (rest.size() < size) return std::nullopt;
  std::string frame(rest.substr(0, size));
  bytes.erase(0, sizeof size + size);
  return frame;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string folders = path != nullptr ? path : "";
  for (std::size_t at = 0; at < folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string program = std::filesystem::path(folders.substr(at, end - at)) / name;
    if (::access(program.c_str(), X_OK) == 0) return program;
    at = end + 1;
  }
  return "";
}

int run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure =
      ::posix_spawn(&child, words[0].c_str(), nullptr, nullptr, arguments.data(), ::environ);
  if (failure != 0) throw std::system_error(failure, std::generic_category(), words[0]);
  const int status = wait_for_end(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

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
