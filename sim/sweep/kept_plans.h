// SPDX-License-Identifier: Apache-2.0
// Plans of the scenarios that a process has run last, for those that plan alike: neighbours in a
// grid often differ only in a bandwidth.
#pragma once

#include <memory>
#include <string>

#include "sim/run/planned_steps.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// A scenario with what it opens.
struct OpenedScenario {
  Scenario scenario;
  Inputs inputs;
};

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

}  // namespace moesim
