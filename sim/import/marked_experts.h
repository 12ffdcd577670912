// SPDX-License-Identifier: Apache-2.0
// Choices as marks of all experts, 0 or 1 (Megatron's routing_map, one-hot ids).
#pragma once

#include "sim/trace/npy.h"

namespace moesim {

/// The ids of the experts that an array [...][expert] marks for each token; the array itself if it
/// is not one of marks. Throws Error if tokens have different numbers of marks, or not `top_k`
/// (unless it is 0).
NpyArray without_marks(const NpyArray& array, int experts, int top_k);

}  // namespace moesim
