// SPDX-License-Identifier: Apache-2.0
// Counts that are written as text: lists in JSON, or a table with a row per layer. Counts in rows
// of numbers, as CSV or what np.savetxt writes.
#pragma once

#include <string>

#include "sim/trace/npy.h"

namespace moesim {

/// Counts [layer][expert] of a file with a row per layer, or per expert with a column per layer.
/// The first column may number the rows, under "layer", "expert" or, as pandas writes it, nothing:
/// then they come in any order. Throws Error for rows of one number and for other values.
NpyArray count_rows(const std::string& path);

/// The counts of a file as one array, whose last axis are experts: a .npy file, nested lists of
/// JSON, an object of lists by layer, or rows of numbers (CSV). Throws Error for anything else.
NpyArray count_array_in(const std::string& path);

}  // namespace moesim
