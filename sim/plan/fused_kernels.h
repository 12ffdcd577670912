// SPDX-License-Identifier: Apache-2.0
// Exchanges that are phases of one kernel, by a transport that is fused.
#pragma once

#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// The exchanges of every fused kernel of a plan, ascending: those of one dispatch or combine, of
/// all communicators and phases. None if transports are not fused.
std::vector<std::vector<OpId>> fused_kernels(const Plan& plan);

/// carriers_of(plan), whose fused kernels are known.
std::vector<Carrier> carriers_of(const Plan& plan, const std::vector<std::vector<OpId>>& fused);

/// What carries an exchange; null: ideal.
const Transport* transport_of(const Transports& transports, const Op& exchange);

}  // namespace moesim
