// SPDX-License-Identifier: Apache-2.0
// Worker processes of a sweep on this machine.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/stopped_child.h"
#include "sim/sweep/claims.h"
#include "sim/sweep/unit.h"

namespace moesim {

/// What the workers of one process do.
struct SweepWork {
  Claims& claims;                            // of units
  std::function<bool(std::int64_t)> wanted;  // whether a unit is to be simulated
  UnitRunner& runner;
  int workers = 1;
};

/// Units are handed out, so that a worker that is killed takes none with it: others run what it
/// had. One that stays stopped is killed. A unit that takes a second worker with it has failed.
class WorkerPool {
 public:
  explicit WorkerPool(SweepWork work) : work_(std::move(work)) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The rows of what has ended in the meantime, after a wait of at most a fifth of a second.
  std::vector<SweepRow> wait();
  bool done() const { return started_ && workers_.empty(); }
  /// Units before it have been handed out.
  std::int64_t reached() const { return reached_; }

 private:
  struct Worker {
    pid_t process = 0;
    int in = -1;             // units go there
    std::string bytes = {};  // of rows that have not arrived as a whole
    StoppedChild stopped = StoppedChild();
    std::deque<std::int64_t> at = {};  // units it has; the first is being simulated
  };

  void start();
  std::optional<std::int64_t> next_unit();
  void hand_out(Worker& worker);
  void read(int pipe, std::vector<SweepRow>& rows);
  void ended(const Worker& worker, int status, std::vector<SweepRow>& rows);

  SweepWork work_;
  bool started_ = false;
  std::int64_t reached_ = 0;
  std::map<int, Worker> workers_;       // by the pipe that they write to
  std::deque<std::int64_t> again_;      // units of workers that were killed
  std::set<std::int64_t> killed_once_;  // units that were being simulated then
};

}  // namespace moesim
