// SPDX-License-Identifier: Apache-2.0
// The placement to measure planners against: what could have been had the loads been known.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim {

/// Choices per expert in each of some steps: [step][expert].
using LoadHistory = std::vector<std::vector<std::int64_t>>;

/// Sum over the steps of the busiest GPU's choices, which is what experts' compute takes.
std::int64_t busiest_loads(const SlotTable& slots, const LoadHistory& loads);

/// Every expert in one slot, as many per GPU as in contiguous placement, so that busiest_loads is
/// small: from contiguous placement, unless heaviest-first packing of the summed loads is better,
/// the best exchange of two experts again and again until none helps. Not always the optimum: that
/// is NP-hard. Throws Error as contiguous_placement.
SlotTable best_slots(const LoadHistory& loads, int experts, int gpus);

}  // namespace moesim
