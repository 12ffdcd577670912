// SPDX-License-Identifier: Apache-2.0
// Checks the numbers of steps: runs all ranks in this process on the CPU and measures no times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "realhw/core/reference.h"
#include "realhw/measure/step_source.h"

namespace moesim {

struct Numerics {
  std::string policy;
  std::string unsuitable;  // why it cannot run; empty: it ran
  int steps = 0;
  Comparison compared;  // over all ranks and steps
};

/// Runs every step of a policy once and compares it with the reference.
Numerics local_numerics(StepSource& source, std::size_t policy, const CompareOptions& options);

/// One line per policy: steps, elements compared, elements wrong.
std::string numerics_table(const std::vector<Numerics>& cases);

}  // namespace moesim
