// SPDX-License-Identifier: Apache-2.0
// What every compiled program must keep to, byte by byte: nothing is read before it was written,
// and no two ops that may run at once touch the same bytes unless both read.
#pragma once

#include <string>
#include <vector>

#include "realhw/program/program.h"

namespace moesim {

/// Broken rules, one for each op that breaks one.
std::vector<std::string> broken_rules(const RankProgram& program);

}  // namespace moesim
