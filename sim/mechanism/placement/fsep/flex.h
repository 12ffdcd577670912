// SPDX-License-Identifier: Apache-2.0
// FlexMoE's expand and shrink, as LAER-MoE's authors run it.
#pragma once

#include "sim/mechanism/loads.h"
#include "sim/mechanism/placement/fsep/slot_grid.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

/// A placement and how many steps led to it.
struct FlexPlan {
  SlotTable slots;
  int steps = 0;
};

/// Starting from `current`, up to `max_steps` times while loads under lite routing differ: every
/// node gives a slot of the cold expert to the hot one; a step that lowers neither the maximum load
/// nor max/min is undone and ends the search. hot has the most choices per copy, cold the fewest
/// among experts whose copies are not exactly one per node.
///
/// This is `flexmoe_method` of Fizzmy/LAER-MoE-AE (galvatron/core/runtime/moe/prefetch/solver.py),
/// a reimplementation: FlexMoE (Proc. ACM Manag. Data 1(1), 2023) also migrates experts and has a
/// cost model. Interpretation: a node without a cold copy is passed over (upstream fails there),
/// and an expert's last copy stays. Throws Error when loads, placement and grid differ in shape.
FlexPlan flex_plan(const LoadMatrix& loads, const SlotTable& current, const SlotGrid& grid,
                   int max_steps = 10);

}  // namespace moesim::fsep
