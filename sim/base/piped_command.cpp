// SPDX-License-Identifier: Apache-2.0
#include "sim/base/piped_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/platform.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

std::atomic<bool> allowed = false;

/// What is kept of a command's standard error.
constexpr std::size_t most_said = 2000;

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

/// In the child, which calls nothing that might wait for a thread of the parent.
[[noreturn]] void become(const char* command, int in, int out, int complaints) {
  ::setpgid(0, 0);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(complaints, 2);
  ::signal(SIGPIPE, SIG_DFL);
  ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  ::_exit(127);
}

/// "ended with status 1", "was ended by signal 11".
std::string end_of(int status) {
  return WIFSIGNALED(status)
             ? fmt::format("was ended by signal {} before it answered", WTERMSIG(status))
             : fmt::format("ended with status {} before it answered", WEXITSTATUS(status));
}

}  // namespace

void allow_commands() { allowed = true; }
bool commands_allowed() { return allowed; }

PipedCommand::PipedCommand(std::string command, std::chrono::milliseconds limit)
    : command_(std::move(command)), limit_(limit) {
  if (!commands_allowed()) {
    throw Error(fmt::format("'{}' may not run", command_), "--allow-commands lets policies run it");
  }
  start();
}

PipedCommand::~PipedCommand() {
  stop();
  close_end(complaints_);
}

void PipedCommand::start() {
  std::array<int, 2> in{}, out{}, complaints{};
  try {
    in = make_socket_pair();
    out = make_pipe();
    complaints = make_pipe();
  } catch (const std::system_error&) {
    throw Error(fmt::format("'{}' cannot be started: no more pipes", command_));
  }
  child_ = fork_bound();
  if (child_ == 0) become(command_.c_str(), in[1], out[1], complaints[1]);
  if (child_ > 0) ::setpgid(child_, child_);  // whichever of the two is first
  ::close(in[1]);
  ::close(out[1]);
  ::close(complaints[1]);
  in_ = in[0];
  out_ = out[0];
  complaints_ = complaints[0];
  if (child_ < 0) throw Error(fmt::format("'{}' cannot be started", command_));
  ::fcntl(complaints_, F_SETFL, O_NONBLOCK);
}

int PipedCommand::stop() {
  close_end(in_);
  close_end(out_);
  if (child_ <= 0) return 0;
  const pid_t child = std::exchange(child_, -1);
  int status = 0;
  // One that ends by itself at the end of its input may do so.
  for (int looks = 0; looks < 50; ++looks) {
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    ::usleep(2000);
  }
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
  return wait_for_end(child);
}

void PipedCommand::read_complaints() {
  std::array<char, 4096> buffer{};
  for (int rounds = 0; rounds < 64; ++rounds) {
    const ssize_t count = ::read(complaints_, buffer.data(), buffer.size());
    if (count <= 0) return;
    said_.append(buffer.data(), static_cast<std::size_t>(count));
    if (said_.size() > most_said) said_.erase(0, said_.size() - most_said);
  }
}

void PipedCommand::fail(const std::string& what, bool by_force) {
  if (by_force) ::kill(-child_, SIGKILL);
  const int status = stop();
  const bool by_itself = !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
  read_complaints();
  close_end(complaints_);
  while (!said_.empty() && (said_.back() == '\n' || said_.back() == '\r')) said_.pop_back();
  throw Error(fmt::format("'{}' {}", command_, by_itself ? end_of(status) : what),
              said_.empty() ? "it said nothing on standard error" : "it said:\n" + said_);
}

bool PipedCommand::exchange(std::string_view& rest, Clock::time_point deadline) {
  std::array<pollfd, 3> ends = {{{out_, POLLIN, 0}, {complaints_, POLLIN, 0}, {in_, POLLOUT, 0}}};
  if (rest.empty()) ends[2].fd = -1;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0 || ::poll(ends.data(), ends.size(), static_cast<int>(left) + 1) == 0) {
    fail(
        fmt::format("did not answer within {:g} s", std::chrono::duration<double>(limit_).count()));
  }
  if (ends[1].revents != 0) {
    read_complaints();
    if ((ends[1].revents & POLLIN) == 0) close_end(complaints_);  // nothing more comes
  }
  if (ends[2].revents != 0) {
    const ssize_t sent = send_now(in_, rest);
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) rest = {};  // its end shows on the other
  }
  return ends[0].revents == 0 || read_more(out_, answer_);
}

std::string PipedCommand::ask(const std::string& line, std::string_view bytes) {
  if (child_ < 0) throw Error(fmt::format("'{}' has ended", command_));
  const Clock::time_point begin = Clock::now(), deadline = begin + limit_;
  const std::string sent = fmt::format("{}\n{}", line, bytes);
  std::string_view rest = sent;
  std::size_t looked = 0, found = std::string::npos;
  while (true) {
    found = answer_.find('\n', looked);
    if (found != std::string::npos) break;
    looked = answer_.size();
    if (looked > most_answer) {
      fail(fmt::format("answers more than {} MB in one line", most_answer >> 20));
    }
    if (exchange(rest, deadline)) continue;
    fail("closed its standard output before it answered", false);
  }
  took_ = Seconds(std::chrono::duration<double>(Clock::now() - begin).count());
  std::string answer = answer_.substr(0, found);
  answer_.erase(0, found + 1);
  if (answer_.find('\n') != std::string::npos) fail("answers more lines than it was asked");
  return answer;
}

}  // namespace moesim
