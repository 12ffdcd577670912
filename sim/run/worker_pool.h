// SPDX-License-Identifier: Apache-2.0
// Child processes that run pieces of work and tell their parent what became of each.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sim/base/processes.h"

namespace moesim {

/// What the workers of one pool do.
struct PoolWork {
  /// The next piece; none if all are handed out. In the parent.
  std::function<std::optional<std::int64_t>()> next;
  /// Runs a piece. `tell` hands any number of frames to the parent, the last one ends the piece; it
  /// is false if nobody reads. In the child, as it was when the worker started.
  using Tell = std::function<bool(const std::string& frame)>;
  std::function<bool(std::int64_t piece, const Tell& tell)> run;
  /// Takes a frame; whether it is the last of its piece. In the parent.
  std::function<bool(std::int64_t piece, std::string frame)> told;
  /// A worker died with this piece: whether another is to run it. In the parent.
  std::function<bool(std::int64_t piece, const std::string& how)> lost;
  int workers = 1;   // at a time; at least one
  bool kept = true;  // a worker runs piece after piece; else every piece has a process of its own
  std::chrono::milliseconds patience = stopped_limit;  // with a worker that was stopped
};

/// Pieces are handed out one by one, so that a worker that dies takes no others with it. One that
/// stays stopped is killed. Child processes leave Ctrl-C to their parent.
class WorkerPool {
 public:
  explicit WorkerPool(PoolWork work) : work_(std::move(work)) {}
  ~WorkerPool();  // kills what still runs
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Starts workers for what there is to do and takes what they told; returns after `longest`, or
  /// if `wake` has something to read (-1: none). What the functions throw ends it.
  void wait(std::chrono::milliseconds longest, int wake = -1);
  /// Whether all pieces have ended.
  bool done() const { return out_of_work_ && again_.empty() && workers_.empty(); }

 private:
  struct Worker {
    pid_t process = 0;
    int in = -1;             // pieces go there
    std::string bytes = {};  // of frames that have not arrived as a whole
    StoppedChild stopped = StoppedChild();
    bool given_up = false;                 // was killed because it stayed stopped
    bool leaves = false;                   // was told that there is no more
    std::deque<std::int64_t> pieces = {};  // that it has; it runs the first
  };

  std::optional<std::int64_t> next_piece();
  void start_workers();
  void start(std::int64_t piece);
  void hand_out(Worker& worker);
  void read(int pipe);
  void ended(const Worker& worker, int status);

  PoolWork work_;
  bool out_of_work_ = false;
  std::map<int, Worker> workers_;   // by the pipe that they write to
  std::deque<std::int64_t> again_;  // pieces of workers that died
};

}  // namespace moesim
