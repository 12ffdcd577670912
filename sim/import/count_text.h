// SPDX-License-Identifier: Apache-2.0
// Counts that are written as text: lists in JSON, or a table with a row per layer.
#pragma once

#include <string>

#include "sim/trace/npy.h"

namespace moesim {

/// The counts of a file as one array, whose last axis are experts: a .npy file, nested lists of
/// JSON, an object of lists by layer, or rows of numbers (CSV). Throws Error for anything else.
NpyArray count_array_in(const std::string& path);

}  // namespace moesim
