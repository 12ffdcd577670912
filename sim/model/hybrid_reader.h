// SPDX-License-Identifier: Apache-2.0
// Reads the keys 'pattern' and 'mamba' of a model's file: layers that have a mixer or an FFN alone.
#pragma once

#include "sim/base/yaml.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// The one block of each layer, by Megatron-Core's letters, the MoE layers among them, and the
/// shape of Mamba mixers. Of a file without 'pattern' it reads nothing.
void read_pattern(const YamlMap& map, MoeModel& model);

}  // namespace moesim
