// SPDX-License-Identifier: Apache-2.0
// Error messages of a failing rank.
#pragma once

#include <stdexcept>
#include <string>

#include "realhw/program/device.h"

namespace moesim {

/// `rank 0, op 3 'dispatch-alltoall' of layer 1: <what>`.
std::runtime_error op_error(const Plan& plan, GpuId rank, OpId op, const std::string& what);

/// Throws op_error when a check has found a number that is not finite.
void throw_if_not_finite(const Findings& findings, const Plan& plan, GpuId rank);

}  // namespace moesim
