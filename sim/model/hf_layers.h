// SPDX-License-Identifier: Apache-2.0
// Which layers of a config.json have experts, and what the others are.
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/hf_architectures.h"
#include "sim/model/hf_keys.h"

namespace moesim {

/// The rule that a file's keys imply, for an architecture that is not known.
HfLayers hf_layers_by_keys(const HfKeys& keys);

/// Layers of the model file: blocks, if these have a pattern. 1 if the file lacks them, which is
/// noted.
std::int64_t hf_layer_count(HfKeys& keys, const HfArchitecture& is);

/// The lines `moe_layers` or `pattern`, and what belongs to them.
std::string hf_layers(HfKeys& keys, const HfArchitecture& is, std::int64_t layers);

}  // namespace moesim
