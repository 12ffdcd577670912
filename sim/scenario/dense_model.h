// SPDX-License-Identifier: Apache-2.0
// Scenarios of dense models: nothing routes, so they need no trace and no policy, and what speaks
// of experts contradicts them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/moe_model.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// The policy of a scenario of a dense model that names none.
inline const std::string no_experts_policy = "no-experts";

/// Whether a model file, a name or a path, is there and describes no experts. Throws Error if it
/// cannot be read.
bool names_dense_model(const std::string& name);

/// Throws Error for a flag `model` that names nothing, which decides what else is needed.
void require_model_of(const std::vector<Override>& flags);

/// Whether the flag of a scenario's key `model` names one.
bool flags_name_dense_model(const std::vector<Override>& flags);

/// Whether the scenario lacks a policy or a trace, and its model is dense and needs none: then it
/// gets a policy, if it lacks one, and balanced routing, unless it says another.
bool leaves_out_as_dense(const YamlMap& scenario, Scenario& s);

/// Throws Error if the model is dense and the scenario has a trace, a policy of experts, an
/// expert-parallel degree or steps of MoE layers, with all of these.
void check_dense(const Scenario& scenario, const MoeModel& model);

/// "the model 'llama-3-8b' is dense".
std::string is_dense_text(const MoeModel& model);

}  // namespace moesim
