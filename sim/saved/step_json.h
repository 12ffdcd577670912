// SPDX-License-Identifier: Apache-2.0
// One executable step as JSON, and whether its parts fit together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/saved/saved_steps.h"

namespace moesim {

/// A plan with explicit rows, and the layers that it computes.
struct RoutedPlan {
  Plan plan;
  std::vector<ServedLayer> layers;
};

/// Adds the keys `layers` and `plan` to an object.
void add_plan(nlohmann::ordered_json& json, const Plan& plan,
              const std::vector<ServedLayer>& layers);

/// Reads them; `name` stands for the plan in messages. Throws Error unless every id of plan and
/// routing is in range and every choice is served where its expert is, and nlohmann's exceptions if
/// a part is missing or of another kind.
RoutedPlan read_plan(const nlohmann::ordered_json& json, const std::string& name);

nlohmann::ordered_json step_json(const ExecutableStep& step);

/// Throws as read_plan does.
ExecutableStep read_step(const nlohmann::ordered_json& json, const std::string& name);

}  // namespace moesim
