// SPDX-License-Identifier: Apache-2.0
// The attention that a config.json describes.
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/hf_architectures.h"
#include "sim/model/hf_keys.h"

namespace moesim {

/// The line `attention: ...` of a model file; empty if the file lacks its shape, or if the
/// architecture mixes kinds that model files cannot say: step plans need none. Windows that have no
/// form are noted.
std::string hf_attention(HfKeys& keys, const HfArchitecture& is, std::int64_t hidden,
                         std::int64_t layers);

}  // namespace moesim
