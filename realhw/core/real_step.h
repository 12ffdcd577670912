// SPDX-License-Identifier: Apache-2.0
// What all ranks of a step share: the plan, the experts' shape, and the routing.
#pragma once

#include <optional>
#include <vector>

#include "realhw/core/expert_shape.h"
#include "realhw/core/routed_layer.h"
#include "sim/plan/plan.h"
#include "sim/saved/held_iteration.h"

namespace moesim {

/// The plan must be checked, with explicit rows, and outlive it.
struct RealStep {
  RealStep(const Plan& p, const ExpertShape& s, std::vector<RoutedLayer> routed)
      : plan(p), shape(s), layers(std::move(routed)) {}
  RealStep(const Plan& p, const MoeModel& model, const std::vector<LayerRouting>& routing)
      : RealStep(p, ExpertShape(model), {routing.begin(), routing.end()}) {}

  const Plan& plan;
  ExpertShape shape;
  std::vector<RoutedLayer> layers;
  std::optional<HeldIteration> iteration = {};  // the step is a whole one
};

}  // namespace moesim
