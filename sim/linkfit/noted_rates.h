// SPDX-License-Identifier: Apache-2.0
// Fitted rates that no link has.
#pragma once

#include <string>

#include "sim/linkfit/link_fit.h"

namespace moesim {

/// Notes in the log that rates are above what its link can have: the `nominal` bandwidth, or if it
/// is empty that of the GPU's data sheet. Times that hardly exceed the fixed one give such rates.
void note_rates(const LinkFit& fit, const std::string& nominal, Log& log);

}  // namespace moesim
