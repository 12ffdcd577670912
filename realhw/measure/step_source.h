// SPDX-License-Identifier: Apache-2.0
// Where the steps of a run come from: planned on the spot, or saved where they were planned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/saved/saved_steps.h"

namespace moesim {

class StepSource {
 public:
  virtual ~StepSource() = default;
  virtual const StepsOrigin& origin() const = 0;
  virtual const Topology& cluster() const = 0;
  virtual std::vector<Diagnostic> warnings() const { return {}; }
  virtual std::vector<std::string> policies() const = 0;
  /// Turns to the first step of a policy. Throws Unsuitable when the cluster cannot host it.
  virtual void begin(std::size_t policy) = 0;
  /// The policy's next step, nothing after its last one. Throws Unsuitable as the planner does.
  virtual std::optional<ExecutableStep> next() = 0;
};

}  // namespace moesim
