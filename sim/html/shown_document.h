// SPDX-License-Identifier: Apache-2.0
// Whether a document has all that a report draws of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace moesim {

/// Throws Error with the file's name for what is not a result of moesim, is of a newer form, or
/// lacks what the page would draw.
void check_shown(const nlohmann::ordered_json& document, const std::string& file);

}  // namespace moesim
