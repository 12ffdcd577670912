// SPDX-License-Identifier: Apache-2.0
// GPUs that share ops, apart from all others: what a measure keeps per GPU is kept for few at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// A set of GPUs, and the ops that run on some of them.
struct Island {
  std::vector<GpuId> gpus;         // ascending
  std::vector<std::uint32_t> ops;  // ascending
};

/// Every GPU and every op that `counts` is in one island; no such op runs in two of them. Pipeline
/// stages are islands if transfers between them do not count. Ops of one group count or not by
/// themselves.
std::vector<Island> islands(const Plan& plan, const std::function<bool(const Op&)>& counts);

}  // namespace moesim
