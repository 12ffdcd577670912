// SPDX-License-Identifier: Apache-2.0
// Loads as JSON text. Programs that can take them packed read them many times as fast.
#pragma once

#include <string>

#include "sim/mechanism/loads.h"

namespace moesim {

/// [[...], ...]: [rank][expert].
std::string lists_of(const LoadMatrix& loads);

/// {"shape": [ranks, experts], "bytes": 1, 2, 4 or 8 of a number, "base64": the numbers row by row,
/// unsigned, lowest byte first}, in as few bytes as the largest number needs.
std::string packed(const LoadMatrix& loads);

}  // namespace moesim
