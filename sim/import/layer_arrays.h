// SPDX-License-Identifier: Apache-2.0
// Arrays of one layer each, whose names differ in its number: layer_3_ids, layer_4_ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

}  // namespace moesim
