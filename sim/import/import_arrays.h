// SPDX-License-Identifier: Apache-2.0
// Finds the arrays that an import needs among those of .npz and .npy files; their names may differ
// in the number of their layer: layer_3_ids, layer_4_ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/import/importer.h"
#include "sim/trace/npy.h"

namespace moesim {

struct LayerArrays {
  std::vector<std::string> names;  // of the arrays, in the order of the numbers
  std::vector<int> layers;         // their numbers; empty: only their order
};

enum class ArrayRole { ids, weights };

/// The arrays of a role among all names; nothing if none or several sets of them could be it.
/// Arrays that NumPy numbers itself (arr_0, arr_1) are layers if there are `expected` of them.
std::optional<LayerArrays> find_layer_arrays(const std::vector<std::string>& names, ArrayRole role,
                                             std::size_t expected);

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
