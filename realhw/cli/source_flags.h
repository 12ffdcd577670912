// SPDX-License-Identifier: Apache-2.0
// What is run: a scenario, if this program can plan, or saved steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "realhw/measure/step_source.h"
#include "sim/flags/command_line.h"
#ifdef MOESIM_SCENARIOS
#include "sim/flags/scenario_flags.h"
#endif

namespace moesim {

class SourceFlags {
 public:
  void add_to(CommandLine& command);
  /// Throws Error as reading does.
  std::unique_ptr<StepSource> open() const;

 private:
  std::string saved_;
#ifdef MOESIM_SCENARIOS
  ScenarioFlags scenario_;
#endif
};

/// Throws Error unless a cluster has as many GPUs as the job has ranks.
void check_ranks(const std::string& cluster, int gpus, int ranks);

/// Flags of what a program without YAML cannot do say so: it was built without and `cannot`.
void refuse_without_yaml(CommandLine& command, const std::vector<std::string>& flags,
                         const std::string& cannot, const std::string& hint);

}  // namespace moesim
