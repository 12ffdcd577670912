// SPDX-License-Identifier: Apache-2.0
// One executable step as JSON, and whether its parts fit together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/saved/saved_steps.h"

namespace moesim {

nlohmann::ordered_json step_json(const ExecutableStep& step);

/// `name` stands for the plan in messages. Throws Error, and nlohmann's exceptions where a part is
/// missing or of another kind.
ExecutableStep read_step(const nlohmann::ordered_json& json, const std::string& name);

/// Every id of plan and routing is in range, and every choice is served where its expert is. Throws
/// Error.
void check_step(const ExecutableStep& step);

}  // namespace moesim
