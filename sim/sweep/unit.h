// SPDX-License-Identifier: Apache-2.0
// Simulates the scenarios of a grid, in the process that calls. It keeps the last plans for
// scenarios that plan alike: neighbours in a grid often differ only in a bandwidth.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/run/planned_steps.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"
#include "sim/sweep/grid.h"
#include "sim/sweep/row.h"

namespace moesim {

class KeptPlans {
 public:
  using Steps = std::shared_ptr<PlannedSteps>;

  /// Those of a scenario that plans alike; else null.
  Steps find(const OpenedScenario& opened);
  /// Keeps steps that were planned for a scenario of one case, if others may have them: planners
  /// have not looked at rates.
  void keep(std::shared_ptr<const OpenedScenario> opened, const Steps& steps);

 private:
  struct Kept {
    std::shared_ptr<const OpenedScenario> opened;  // that the steps refer to
    Steps steps;
  };
  Memo<Kept> kept_{16};
};

/// All that the plans of a scenario of one case depend on, but for rates of its cluster; equal for
/// scenarios that differ in these or in their fidelities.
std::string plan_key(const OpenedScenario& opened);

/// The hash of an input as it is now, under its column, and the input's name.
struct InputHash {
  std::string column, hash, name;
};

/// What the rows of a unit say of their inputs if they are run now.
struct InputHashes {
  std::vector<InputHash> found = {};
  std::string fault = {};  // why the inputs cannot be used now; empty if they can
};

/// Simulates unit after unit; inputs that they share are opened once.
class UnitRunner {
 public:
  /// The grid must outlive it; `version` is that of the program. A rough look has least times as
  /// figures, too; of iterations it has none, and two microbatches stand for all.
  UnitRunner(const SweepGrid& grid, std::string version, bool rough = false)
      : grid_(grid), version_(std::move(version)), rough_(rough) {}

  /// A row for each scenario of the unit; what cannot be or fails is a row, too.
  std::vector<SweepRow> run(std::int64_t unit);
  InputHashes hashes(std::int64_t unit);
  const std::string& version() const { return version_; }
  /// Rows that say why there are no figures.
  std::vector<SweepRow> not_run(std::int64_t unit, const std::string& state,
                                const std::string& reason) const;

 private:
  void simulate(std::int64_t unit, std::vector<SweepRow>& rows);
  std::string state_of(const Error& e) const;

  const SweepGrid& grid_;
  std::string version_;
  bool rough_;
  InputCache cache_;
  KeptPlans plans_;
};

}  // namespace moesim
