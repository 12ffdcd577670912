// SPDX-License-Identifier: Apache-2.0
// FreeBalance (arXiv 2608.14205), an interpretation: experts of loaded and of idle ranks change
// places before the gate, by predicted loads.
#pragma once

#include <cstdint>
#include <span>

#include "sim/mechanism/placement/serving/llep.h"

namespace moesim {

/// At most `swaps` times per domain of `domain` consecutive GPUs, an expert of the most loaded GPU
/// and one of the least loaded change places: the two for which the larger load of both falls most.
/// Nobody swaps if it does not fall. Every GPU computes as many experts as before. Ties: lower GPU,
/// lower expert. Throws Error unless gpus divides the experts.
llep::Plan free_balance(std::span<const std::int64_t> counts, int gpus, int domain, int swaps);

}  // namespace moesim
