// SPDX-License-Identifier: Apache-2.0
// The params.json that Mistral writes next to its weights.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace moesim {

/// Whether the keys are those of a params.json: no model_type, and `dim` for the width.
bool is_mistral_params(const nlohmann::ordered_json& root);

/// The same as a config.json says it.
nlohmann::ordered_json config_of_mistral_params(const nlohmann::ordered_json& root);

}  // namespace moesim
