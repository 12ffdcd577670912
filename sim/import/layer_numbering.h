// SPDX-License-Identifier: Apache-2.0
// What numbers of layers in a file are in the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/import/importer.h"

namespace moesim {

/// The model's numbers of layers that are counted "from-0", "from-1" or "moe" (only MoE layers,
/// from 0, and those of MTP behind them). -1: of none.
std::vector<int> layers_by_numbering(const std::vector<int>& layers, std::string_view numbering,
                                     const ImportOptions& options);

/// Whether multi-token prediction explains so many layers behind the model's: as many as the model
/// says, or one of a model that does not say.
bool are_mtp_layers(std::int64_t extra, const ImportOptions& options);

/// The numbers with -1 for those behind the model's last layer, if are_mtp_layers.
std::vector<int> without_mtp(std::vector<int> numbers, const ImportOptions& options);

/// Whether the numbers are those of the MoE layers, next to which there may be those of MTP.
bool are_moe_layers(const std::vector<int>& numbers, const ImportOptions& options);

/// Numbers that are the model's unless --numbering says otherwise. Throws Error if they are not,
/// and would be if they were counted in another way.
std::vector<int> numbered_layers(const std::vector<int>& layers, const ImportOptions& options,
                                 const std::string& where);

}  // namespace moesim
