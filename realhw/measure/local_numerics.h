// SPDX-License-Identifier: Apache-2.0
// Are the numbers right? All ranks of the steps in this process, on the CPU, without any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "realhw/core/reference.h"
#include "realhw/measure/step_source.h"

namespace moesim {

struct Numerics {
  std::string policy;
  std::string unsuitable;  // why it cannot run; empty: it did
  int steps = 0;
  Comparison compared;  // over all ranks and steps
};

/// Runs every step of a policy once and compares it with the reference.
Numerics local_numerics(StepSource& source, std::size_t policy, const CompareOptions& options);

/// One line a policy: steps, elements compared, elements wrong.
std::string numerics_table(const std::vector<Numerics>& cases);

}  // namespace moesim
