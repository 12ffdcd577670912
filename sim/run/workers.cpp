// SPDX-License-Identifier: Apache-2.0
#include "sim/run/workers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/platform.h"
#include "sim/base/processes.h"
#include "sim/base/unsuitable.h"
#include "sim/print/progress_line.h"
#include "sim/print/terminal.h"
#include "sim/run/worker_pool.h"
#include "sim/trace/mapped_file.h"

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

/// The kind and then the content as it is: results are long, and a frame has its length already.
std::string frame_of(const Message& message) {
  std::string frame = to_bytes(message.kind);
  frame += message.content;
  return frame;
}
Message message_of(std::string_view frame) {
  Message message;
  take(frame, message.kind);
  message.content = frame;
  return message;
}

struct StepOfJob {
  double step = 0;  // part of one included
  int steps = 0;
};

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

/// In the child.
bool run_job(const WorkerJob<std::string>& job, const PoolWork::Tell& tell_bytes) {
  // A run frees and takes arrays of many megabytes all the time: each page that comes anew from the
  // kernel costs a fault.
  keep_freed_memory();
  const auto tell = [&](const Message& message) {
    // Nobody reads: nobody wants the result either.
    if (!tell_bytes(frame_of(message))) ::_exit(1);
  };
  const JobProgress progress{[tell](double step, int steps) {
                               tell({Telling::step, to_bytes(StepOfJob{step, steps})});
                             },
                             [tell](const std::string& text) {
                               tell({Telling::note, text});
                             }};
  return tell_bytes(frame_of(run_to_end(job, progress)));
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

using FinishedBytes = std::function<void(std::size_t job, std::string_view bytes)>;

/// Every job in a process of its own.
class JobPool {
 public:
  JobPool(const std::vector<WorkerJob<std::string>>& jobs, int workers,
          const FinishedBytes& finished, const JobsHeard& heard)
      : jobs_(jobs),
        finished_(finished),
        heard_(heard),
        ends_(jobs.size()),
        done_(jobs.size()),
        pool_({.next = [this] { return next_job(); },
               .run = [this](std::int64_t job,
                             const PoolWork::Tell& tell) { return run_job(of(job), tell); },
               .told = [this](std::int64_t job,
                              const std::string& frame) { return told(job, frame); },
               .lost = [this](std::int64_t job, const std::string& how) -> bool {
                 throw std::runtime_error(fmt::format("{}: {}", of(job).name, how));
               },
               .workers = std::max(workers, 1),
               .kept = false}) {}

  /// Until all jobs have ended or a signal came, which it returns.
  int run() {
    while (signals_.caught() == 0 && !pool_.done()) pool_.wait(stopped_look, signals_.file());
    line_.clear();
    return signals_.caught();
  }
  /// How each job ended, without the contents of results.
  const std::vector<Message>& ends() const { return ends_; }

 private:
  const WorkerJob<std::string>& of(std::int64_t job) const {
    return jobs_[static_cast<std::size_t>(job)];
  }

  std::optional<std::int64_t> next_job() {
    return next_ < std::ssize(jobs_) ? std::optional(next_++) : std::nullopt;
  }

  bool told(std::int64_t job, const std::string& frame) {
    Message message = message_of(frame);
    if (message.kind == Telling::step) {
      show(static_cast<std::size_t>(job), from_bytes<StepOfJob>(message.content));
      return false;
    }
    if (message.kind == Telling::note) {
      line_.clear();
      if (heard_.note) {
        heard_.note(of(job).name, message.content);
      } else if (!is_quiet()) {
        fmt::print(stderr, "{}: {}\n", of(job).name, message.content);
      }
      return false;
    }
    end(static_cast<std::size_t>(job), std::move(message));
    return true;
  }

  void end(std::size_t job, Message message) {
    if (message.kind == Telling::result) {
      line_.clear();
      done_[job] = 1;
      finished_(job, message.content);
      message.content.clear();
    }
    ends_[job] = std::move(message);
  }

  void show(std::size_t job, const StepOfJob& at) {
    const double before = done_[job];
    done_[job] = at.steps > 0 ? at.step / at.steps : 0;
    steps_ += (done_[job] - before) * at.steps;
    const double all = std::accumulate(done_.begin(), done_.end(), 0.0);
    if (heard_.progress) heard_.progress(all / static_cast<double>(jobs_.size()));
    line_.show(fmt::format("[{}/{}] {}: step {} of {};", job + 1, jobs_.size(), jobs_[job].name,
                           static_cast<int>(at.step), at.steps),
               all / static_cast<double>(jobs_.size()), steps_, "steps");
  }

  const std::vector<WorkerJob<std::string>>& jobs_;
  const FinishedBytes& finished_;
  const JobsHeard& heard_;
  const StopSignals signals_;
  std::int64_t next_ = 0;      // to be handed out
  std::vector<Message> ends_;  // by job; a step if there is none yet
  std::vector<double> done_;   // [job] its part
  double steps_ = 0;           // of all jobs
  ProgressLine line_;
  WorkerPool pool_;
};

}  // namespace

int run_byte_jobs(const std::vector<WorkerJob<std::string>>& jobs, int workers,
                  const FinishedBytes& finished, const JobsHeard& heard) {
  JobPool pool(jobs, workers, finished, heard);
  const int signal = pool.run();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    throw_failure(jobs[job].name, pool.ends()[job]);
  }
  return signal;
}

}  // namespace moesim
