// SPDX-License-Identifier: Apache-2.0
// Reads the key 'attention' of a model's file.
#pragma once

#include "sim/base/yaml.h"
#include "sim/model/moe_model.h"

namespace moesim {

inline constexpr Range possible_size{1, 1 << 20};

/// Its heads, or, for forms that have no shape here, what they amount to.
Attention read_attention(const YamlMap& attention, std::int64_t hidden);

}  // namespace moesim
