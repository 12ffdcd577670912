// SPDX-License-Identifier: Apache-2.0
// What numbers of layers in a file are in the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/import/importer.h"

namespace moesim {

/// The model's numbers of layers that are counted "from-0", "from-1" or "moe" (only MoE layers,
/// from 0). -1: of none.
std::vector<int> layers_by_numbering(const std::vector<int>& layers, std::string_view numbering,
                                     const std::vector<int>& moe_layers);

/// Numbers that are the model's unless --numbering says otherwise. Throws Error if they are not,
/// and would be if they were counted in another way.
std::vector<int> numbered_layers(const std::vector<int>& layers, const ImportOptions& options,
                                 const std::string& where);

}  // namespace moesim
