// SPDX-License-Identifier: Apache-2.0
// All ranks of a plan in one process, one after the other: real data without MPI.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "realhw/core/rank_state.h"

namespace moesim {

/// Sees, and may change, a message on its way.
using Tamper = std::function<void(OpId exchange, const Parcel& parcel, std::span<std::byte>)>;

/// Runs the step on all ranks, which are reset first. A message arrives when its sender has joined
/// the exchange. Throws std::runtime_error when ops never end or a rank lacks what it must send.
void run_locally(std::vector<std::unique_ptr<RankState>>& ranks, const Tamper& tamper = {});

/// One state per GPU of the plan.
std::vector<std::unique_ptr<RankState>> all_ranks(const RealStep& step);

}  // namespace moesim
