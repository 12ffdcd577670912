// SPDX-License-Identifier: Apache-2.0
// Finds the arrays that an import needs among those of .npz and .npy files.
#pragma once

#include <optional>

#include "sim/import/importer.h"
#include "sim/trace/npy.h"

namespace moesim {

struct ImportArrays {
  NpyArray ids;
  std::optional<NpyArray> lengths;  // of the sequences
  std::optional<NpyArray> weights;
};

/// Finds each role's array by the name that the options give, else by the names that recorders use,
/// and reads only these. Throws Error when no array, or several, could be the ids, or weights have
/// another shape.
ImportArrays read_import_arrays(const ImportOptions& options);

}  // namespace moesim
