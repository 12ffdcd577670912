// SPDX-License-Identifier: Apache-2.0
// Finds the arrays that an import needs among those of .npz and .npy files.
#pragma once

#include <optional>
#include <vector>

#include "sim/import/importer.h"
#include "sim/trace/npy.h"

namespace moesim {

struct ImportArrays {
  std::vector<NpyArray> ids;  // one of all layers, or one per layer
  std::vector<int> layers;    // their numbers by their names; empty: not per layer, or unknown
  bool per_layer = false;
  std::optional<NpyArray> lengths;  // of the sequences
  std::vector<NpyArray> weights;    // as ids, or none
};

/// Finds each role's array by the name that the options give, else by the names that recorders use,
/// and reads only these; arrays whose names differ in the number of a layer are its layers. Throws
/// Error when no array, or several, could be the ids, or weights have another shape.
ImportArrays read_import_arrays(const ImportOptions& options);

}  // namespace moesim
