// SPDX-License-Identifier: Apache-2.0
// Loads as programs read them: lists of JSON, or bytes, which are many times as fast.
#pragma once

#include <string>

#include "sim/mechanism/loads.h"

namespace moesim {

/// [[...], ...]: [rank][expert].
std::string lists_of(const LoadMatrix& loads);

struct PackedLoads {
  std::string shape;  // JSON: {"shape": [ranks, experts], "bytes": 1, 2, 4 or 8 of a number}
  std::string bytes;  // the numbers row by row, unsigned, lowest byte first
};

/// In as few bytes as the largest number needs.
PackedLoads packed(const LoadMatrix& loads);

}  // namespace moesim
