// SPDX-License-Identifier: Apache-2.0
#include "sim/run/workers.h"

#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <map>
#include <numeric>
#include <stdexcept>

#include "sim/base/cause.h"
#include "sim/base/processes.h"
#include "sim/base/stopped_child.h"
#include "sim/mechanism/unsuitable.h"
#include "sim/print/progress_line.h"
#include "sim/print/terminal.h"
#include "sim/trace/unchanged.h"

namespace moesim {
namespace {

/// What a child tells of: any number of steps and notes, then what the job ends with.
enum class Telling { step, note, result, unsuitable, error, failure };

/// The content is a StepOfJob, a note, the result, the diagnostics of an Error or the text of a
/// failure.
struct Message {
  Telling kind = Telling::step;
  std::string content;
};

struct StepOfJob {
  double step = 0;  // part of one included
  int steps = 0;
};

bool send(int out, const Message& message) { return write_frame(out, to_bytes(message)); }

/// What a run on a changed trace fails with says nothing of the change.
std::string run_on_unchanged_files(const WorkerJob<std::string>& job, const JobProgress& progress) {
  try {
    std::string result = job.run(progress);
    check_unchanged_files();
    return result;
  } catch (const std::exception&) {
    check_unchanged_files();
    throw;
  }
}

Message run_to_end(const WorkerJob<std::string>& job, const JobProgress& progress) {
  try {
    return {Telling::result, run_on_unchanged_files(job, progress)};
  } catch (const Unsuitable& e) {
    return {Telling::unsuitable, to_bytes(e.diagnostics())};
  } catch (const Error& e) {
    return {Telling::error, to_bytes(e.diagnostics())};
  } catch (const std::exception& e) {
    return {Telling::failure, cause_of(e)};
  }
}

/// A run frees and takes arrays of many megabytes all the time: their pages are kept for the next,
/// because each costs a fault when it comes anew from the kernel. The child ends with its job.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  ::mallopt(M_TOP_PAD, 64 << 20);
#endif
}

/// In the child.
bool run_job(const WorkerJob<std::string>& job, int out) {
  hold_back_stop_signals();
  keep_freed_memory();
  const auto tell = [out](const Message& message) {
    // Nobody reads: nobody wants the result either.
    if (!send(out, message)) ::_exit(1);
  };
  const JobProgress progress{[tell](double step, int steps) {
                               tell({Telling::step, to_bytes(StepOfJob{step, steps})});
                             },
                             [tell](const std::string& text) {
                               tell({Telling::note, text});
                             }};
  return send(out, run_to_end(job, progress));
}

/// The first diagnostic says whose they are.
std::vector<Diagnostic> named(const std::string& name, const std::string& content) {
  auto diagnostics = from_bytes<std::vector<Diagnostic>>(content);
  diagnostics.front().message = fmt::format("{}: {}", name, diagnostics.front().message);
  return diagnostics;
}

void throw_failure(const std::string& name, const Message& message) {
  switch (message.kind) {
    case Telling::unsuitable:
      throw Unsuitable(named(name, message.content));
    case Telling::error:
      throw Error(named(name, message.content));
    case Telling::failure:
      throw std::runtime_error(fmt::format("{}: {}", name, message.content));
    case Telling::step:
    case Telling::note:
    case Telling::result:
      break;
  }
}

struct Worker {
  std::size_t job = 0;
  pid_t process = 0;
  std::string bytes = {};  // of messages that have not arrived as a whole
  StoppedChild stopped = StoppedChild();
};

using FinishedBytes = std::function<void(std::size_t job, std::string_view bytes)>;

class Pool {
 public:
  Pool(const std::vector<WorkerJob<std::string>>& jobs, int workers, const FinishedBytes& finished)
      : jobs_(jobs),
        finished_(finished),
        most_(static_cast<std::size_t>(std::max(workers, 1))),
        ends_(jobs.size()),
        done_(jobs.size()) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  ~Pool() {
    for (const auto& [pipe, worker] : workers_) {
      ::kill(worker.process, SIGKILL);
      wait_for_end(worker.process);
      ::close(pipe);
    }
  }

  /// Until all jobs have ended or a signal came, which it returns.
  int run() {
    std::size_t next = 0;
    while (signals_.caught() == 0 && (next < jobs_.size() || !workers_.empty())) {
      while (next < jobs_.size() && workers_.size() < most_) start(next++);
      wait();
    }
    line_.clear();
    return signals_.caught();
  }
  /// How each job ended, without the contents of results.
  const std::vector<Message>& ends() const { return ends_; }

 private:
  void start(std::size_t job) {
    std::fflush(nullptr);
    const ChildProcess child = start_child([&](int out) { return run_job(jobs_[job], out); });
    workers_[child.out] = {job, child.id};
  }

  void wait() {
    std::vector<pollfd> polled = {{signals_.file(), POLLIN, 0}};
    for (const auto& [pipe, worker] : workers_) polled.push_back({pipe, POLLIN, 0});
    if (::poll(polled.data(), polled.size(), static_cast<int>(stopped_look.count())) < 0 &&
        errno != EINTR) {
      throw std::runtime_error("cannot wait for the workers");
    }
    for (const pollfd& p : polled) {
      if (p.revents != 0 && p.fd != signals_.file()) read(p.fd);
    }
    for (auto& [pipe, worker] : workers_) {
      if (!worker.stopped.given_up(worker.process)) continue;
      throw std::runtime_error(
          fmt::format("{}: the worker was {}", jobs_[worker.job].name, stopped_reason()));
    }
  }

  void read(int pipe) {
    Worker& worker = workers_.at(pipe);
    if (!read_more(pipe, worker.bytes)) {
      const Worker ended = worker;
      workers_.erase(pipe);
      ::close(pipe);
      check_end(ended, wait_for_end(ended.process));
      return;
    }
    while (const auto frame = next_frame(worker.bytes)) {
      auto message = from_bytes<Message>(*frame);
      if (message.kind == Telling::step) {
        show(worker, from_bytes<StepOfJob>(message.content));
      } else if (message.kind == Telling::note) {
        line_.clear();
        if (!is_quiet()) fmt::print(stderr, "{}: {}\n", jobs_[worker.job].name, message.content);
      } else {
        end(worker.job, std::move(message));
      }
    }
  }

  void end(std::size_t job, Message message) {
    if (message.kind == Telling::result) {
      line_.clear();
      finished_(job, message.content);
      message.content.clear();
    }
    ends_[job] = std::move(message);
  }

  void show(const Worker& worker, const StepOfJob& at) {
    const double before = done_[worker.job];
    done_[worker.job] = at.steps > 0 ? at.step / at.steps : 0;
    steps_ += (done_[worker.job] - before) * at.steps;
    const double all = std::accumulate(done_.begin(), done_.end(), 0.0);
    line_.show(fmt::format("[{}/{}] {}: step {} of {};", worker.job + 1, jobs_.size(),
                           jobs_[worker.job].name, static_cast<int>(at.step), at.steps),
               all / static_cast<double>(jobs_.size()), steps_, "steps");
  }

  void check_end(const Worker& worker, int status) const {
    const std::string& name = jobs_[worker.job].name;
    if (WIFSIGNALED(status)) {
      throw std::runtime_error(fmt::format(
          "{}: worker killed by signal {}{}", name, WTERMSIG(status),
          WTERMSIG(status) == SIGKILL ? ", as the kernel does when memory runs out" : ""));
    }
    if (WEXITSTATUS(status) != 0 || ends_[worker.job].kind == Telling::step) {
      throw std::runtime_error(fmt::format("{}: worker ended without a result", name));
    }
  }

  const std::vector<WorkerJob<std::string>>& jobs_;
  const FinishedBytes& finished_;
  const StopSignals signals_;
  std::size_t most_;
  std::vector<Message> ends_;      // by job; a step if there is none yet
  std::map<int, Worker> workers_;  // by pipe
  std::vector<double> done_;       // [job] its part
  double steps_ = 0;               // of all jobs
  ProgressLine line_;
};

}  // namespace

int run_byte_jobs(const std::vector<WorkerJob<std::string>>& jobs, int workers,
                  const FinishedBytes& finished) {
  Pool pool(jobs, workers, finished);
  const int signal = pool.run();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    throw_failure(jobs[job].name, pool.ends()[job]);
  }
  return signal;
}

}  // namespace moesim
