// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/mechanism/loads.h"
#include "sim/trace/batches.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// Choices of every source rank for every expert; choices that are known are not counted again.
LoadMatrix count_loads(const Batch& batch, IdRows ids, int experts);

}  // namespace moesim
