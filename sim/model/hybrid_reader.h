// SPDX-License-Identifier: Apache-2.0
// Reads the keys 'pattern' and 'mamba' of a model's file: layers that have only a mixer or an FFN.
#pragma once

#include "sim/base/yaml.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// The one block of each layer, by Megatron-Core's letters, the MoE layers among them, and the
/// shape of Mamba mixers. It reads nothing of a file without 'pattern'.
void read_pattern(const YamlMap& map, MoeModel& model);

}  // namespace moesim
