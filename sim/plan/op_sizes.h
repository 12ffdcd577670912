// SPDX-License-Identifier: Apache-2.0
// Whether the sizes of ops can be counted in 64 bits.
#pragma once

#include <string>

#include "sim/plan/plan.h"

namespace moesim {

/// More bytes than any cluster moves or holds; what an op moves, reads or writes stays at or below
/// it, so that sums over the ops of a plan stay exact.
inline constexpr double most_op_bytes = 9007199254740992.;  // 2^53

/// Complains of a kernel, or an exchange of so many units, that moves more than most_op_bytes;
/// empty: it does not.
std::string size_mistake(const Kernel& kernel);
std::string size_mistake(double units, Bytes unit);

}  // namespace moesim
