// SPDX-License-Identifier: Apache-2.0
// Checks that a result document has everything that a report draws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace moesim {

/// Throws Error, which names `file`, if the document is not a result of moesim, has another format
/// version than this program knows, or lacks something that the report draws.
void check_shown(const nlohmann::ordered_json& document, const std::string& file);

}  // namespace moesim
