// SPDX-License-Identifier: Apache-2.0
// Worker processes of a sweep on this machine.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "sim/run/worker_pool.h"
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

/// A unit that takes a second worker with it has failed.
class UnitPool {
 public:
  explicit UnitPool(SweepWork work);

  /// The rows of what has ended in the meantime, after a wait of at most a fifth of a second.
  std::vector<SweepRow> wait();
  bool done() const { return pool_.done(); }
  /// Units before it have been handed out.
  std::int64_t reached() const { return reached_; }

 private:
  std::optional<std::int64_t> next_unit();
  void add(const std::vector<SweepRow>& rows);
  bool runs_again(std::int64_t unit, const std::string& how);

  SweepWork work_;
  std::int64_t reached_ = 0;
  std::vector<SweepRow> rows_;        // that nobody has taken
  std::set<std::int64_t> lost_once_;  // units whose worker died
  WorkerPool pool_;
};

}  // namespace moesim
