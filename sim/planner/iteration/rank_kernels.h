// SPDX-License-Identifier: Apache-2.0
// One list of ops from the kernels of GPUs whose batches differ.
#pragma once

#include <vector>

#include "sim/model/blocks.h"
#include "sim/plan/plan.h"

namespace moesim {

/// A kernel of some GPUs of a stage, under its own numbers.
struct GroupKernel {
  OpKind kind = OpKind::other;
  Group group;
  Kernels kernels;
};

/// Merges lists of kernels in launch order. Kernels that differ only in their sizes are one op of
/// the GPUs that have them; what only some GPUs run, such as the attention of a prefill, is an op
/// of these, in its place. `list_of`: [GPU] an index into the lists.
std::vector<GroupKernel> joined(const std::vector<std::vector<BlockKernel>>& lists,
                                const std::vector<std::size_t>& list_of);

}  // namespace moesim
