// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

// A child writes lines "p STEP STEPS", then one of "r", "e" (bad input) or "f" (failed) followed by
// the text up to the end of the pipe.

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(1);
    done += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void run_child(const WorkerJob& job, int fd) {
  const Progress progress = [fd](int step, int steps) {
    write_all(fd, fmt::format("p {} {}\n", step, steps));
  };
  try {
    write_all(fd, "r\n" + job.run(progress));
  } catch (const Error& e) {
    write_all(fd, std::string("e\n") + e.what());
  } catch (const std::exception& e) {
    write_all(fd, std::string("f\n") + e.what());
  }
  ::_exit(0);
}

struct Child {
  std::size_t job = 0;
  pid_t pid = 0;
  std::string text;  // all that came through the pipe
};

class Pool {
 public:
  Pool(const std::vector<WorkerJob>& jobs, int workers)
      : jobs_(jobs),
        workers_(static_cast<std::size_t>(std::max(workers, 1))),
        texts_(jobs.size()) {}

  ~Pool() {
    for (const auto& [fd, child] : children_) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
      ::close(fd);
    }
  }

  std::vector<std::string> run() {
    while (next_ < jobs_.size() || !children_.empty()) {
      while (next_ < jobs_.size() && children_.size() < workers_) start();
      wait();
    }
    if (terminal_) fmt::print(stderr, "\r\033[K");
    return std::move(texts_);
  }

 private:
  void start() {
    int fds[2];
    if (::pipe(fds) != 0) throw std::runtime_error("cannot make a pipe for a worker");
    std::fflush(nullptr);
    const pid_t pid = fork_bound();
    if (pid < 0) throw std::runtime_error("cannot start a worker process");
    if (pid == 0) {
      ::close(fds[0]);
      run_child(jobs_[next_], fds[1]);
    }
    ::close(fds[1]);
    children_[fds[0]] = {next_++, pid, ""};
  }

  void wait() {
    std::vector<pollfd> polled;
    for (const auto& [fd, child] : children_) polled.push_back({fd, POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
      throw std::runtime_error("cannot wait for the workers");
    }
    for (const pollfd& p : polled) {
      if (p.revents != 0) read(p.fd);
    }
  }

  void read(int fd) {
    char buffer[65536];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    Child& child = children_[fd];
    if (n > 0) {
      child.text.append(buffer, static_cast<std::size_t>(n));
      show(child);
      return;
    }
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    finish(child, status);
    ::close(fd);
    children_.erase(fd);
  }

  /// Drops progress lines from the front of a child's text and shows the newest.
  void show(Child& child) {
    while (child.text.starts_with("p ")) {
      const auto end = child.text.find('\n');
      if (end == std::string::npos) return;
      if (terminal_) {
        fmt::print(stderr, "\r\033[K[{}/{}] {}: step {}", child.job + 1, jobs_.size(),
                   jobs_[child.job].name, child.text.substr(2, end - 2));
        std::fflush(stderr);
      }
      child.text.erase(0, end + 1);
    }
  }

  void finish(Child& child, int status) {
    const std::string& name = jobs_[child.job].name;
    if (WIFSIGNALED(status)) {
      throw std::runtime_error(
          fmt::format("{}: worker killed by signal {}", name, WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != 0 || child.text.size() < 2) {
      throw std::runtime_error(fmt::format("{}: worker ended without a result", name));
    }
    texts_[child.job] = child.text;
  }

  const std::vector<WorkerJob>& jobs_;
  std::size_t workers_;
  std::vector<std::string> texts_;
  std::map<int, Child> children_;  // by pipe
  std::size_t next_ = 0;
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
};

}  // namespace

std::vector<std::string> run_jobs(const std::vector<WorkerJob>& jobs, int workers) {
  std::vector<std::string> texts = Pool(jobs, workers).run();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const char kind = texts[i][0];
    texts[i].erase(0, 2);
    if (kind == 'e') {
      std::string text = texts[i];
      if (text.starts_with("error: ")) text.erase(0, 7);
      while (text.ends_with('\n')) text.pop_back();
      throw Error(fmt::format("{}: {}", jobs[i].name, text));
    }
    if (kind == 'f') throw std::runtime_error(fmt::format("{}: {}", jobs[i].name, texts[i]));
  }
  return texts;
}

}  // namespace moesim
