// SPDX-License-Identifier: Apache-2.0
// Simulates the scenarios of a grid, in the process that calls.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/input_cache.h"
#include "sim/sweep/grid.h"
#include "sim/sweep/grid_traces.h"
#include "sim/sweep/row.h"

namespace moesim {

/// Simulates unit after unit; inputs that they share are opened once.
class UnitRunner {
 public:
  /// The grid must outlive it; `version` is that of the program.
  UnitRunner(const SweepGrid& grid, GridTraces traces, std::string version,
             bool least_times = false)
      : grid_(grid),
        traces_(std::move(traces)),
        version_(std::move(version)),
        least_times_(least_times),
        fidelities_(grid.fidelities()) {}

  /// A row for each scenario of the unit; what cannot be or fails is a row, too.
  std::vector<SweepRow> run(std::int64_t unit);
  /// Rows that say why there are no figures.
  std::vector<SweepRow> not_run(std::int64_t unit, const std::string& state,
                                const std::string& reason) const;

 private:
  void simulate(std::int64_t unit, std::vector<SweepRow>& rows);

  const SweepGrid& grid_;
  GridTraces traces_;
  std::string version_;
  bool least_times_;                  // are figures, too
  std::vector<Fidelity> fidelities_;  // of the whole grid
  InputCache cache_;
};

}  // namespace moesim
