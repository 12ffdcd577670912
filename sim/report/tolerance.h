// SPDX-License-Identifier: Apache-2.0
// The flag that says how far simulated times may be from measured ones.
#pragma once

#include <string>

namespace moesim {

/// "12 %" -> 0.12; throws Error.
double parse_tolerance(const std::string& text);

}  // namespace moesim
