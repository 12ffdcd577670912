// SPDX-License-Identifier: Apache-2.0
// The part of the delivery check that is about the experts' GEMMs.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/journey.h"
#include "sim/plan/mistakes.h"
#include "sim/plan/op_order.h"
#include "sim/plan/placement.h"
#include "sim/plan/plan.h"

namespace moesim {

/// The GEMMs of one layer and pass.
struct ExpertGemms {
  const Plan& plan;
  const Placement& placement;
  bool padded;                     // they may compute padding too
  const std::vector<OpId>& gemms;  // in list order
  const std::string& where;        // begins every mistake
};

/// Compares them with the rows that arrive and the results that are taken away: every GPU computes
/// the rows that chose its slots, after they have arrived and before their results leave.
void check_experts(const ExpertGemms& experts, const CarriedBySlot& arrived,
                   const CarriedBySlot& taken, OpOrder& order, Mistakes& mistakes);

}  // namespace moesim
