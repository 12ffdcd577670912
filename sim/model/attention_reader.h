// SPDX-License-Identifier: Apache-2.0
// Reads the keys 'attention', 'pattern' and 'mamba' of a model's file; with the last two, layers
// have only a mixer or an FFN.
#pragma once

#include "sim/base/yaml.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// The one block of each layer, by Megatron-Core's letters, the MoE layers among them, and the
/// shape of Mamba mixers. It reads nothing of a file without 'pattern'.
void read_pattern(const YamlMap& map, MoeModel& model);

inline constexpr Range possible_size{1, 1 << 20};

/// Its heads, or, for forms that have no shape here, what they amount to.
Attention read_attention(const YamlMap& attention, std::int64_t hidden);

}  // namespace moesim
