// SPDX-License-Identifier: Apache-2.0
// HierMoE's automatic depth: the d* of its cost model, decided for every layer and step.
#pragma once

#include <memory>
#include <vector>

#include "sim/model/group_counts.h"
#include "sim/policy/hierarchy.h"

namespace moesim {

/// Chooses among the depths 1..D of one hierarchical dispatch by arXiv 2508.09591, section 1.3: the
/// alpha-beta costs are fitted to the simulated network as the paper fits them to nccl-tests, the
/// counts are those of the layer's routing, which one all-reduce tells every rank. The slowest run
/// of ranks decides. Throws Error where the levels are not uniform.
std::unique_ptr<Dispatch> automatic_depth(const DispatchContext& context,
                                          const Hierarchy& hierarchy, bool dedup,
                                          CountReading reading,
                                          std::vector<std::unique_ptr<Dispatch>> by_depth);

}  // namespace moesim
