// SPDX-License-Identifier: Apache-2.0
// Files that makers of models write next to their weights, in keys of their own.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace moesim {

/// What a config.json says that Mistral's params.json, OpenAI's file of gpt-oss or DeepSeek's files
/// for its own inference say; anything else as it is.
nlohmann::ordered_json config_of_params(const nlohmann::ordered_json& root);

}  // namespace moesim
