// SPDX-License-Identifier: Apache-2.0
// What a config.json says and a model file cannot hold.
#pragma once

#include <string>

#include "sim/model/hf_architectures.h"
#include "sim/model/hf_keys.h"

namespace moesim {

/// Whether the keys are those of an attention that model files cannot say.
bool has_other_attention(const HfKeys& keys);

/// In which format the file stores its weights, as `checkpoint` of a model file; "": in none that
/// it knows.
std::string hf_checkpoint(const HfKeys& keys, const HfKeys& outer);

/// Notes it. `rows` is the type of rows and weights, `outer` the keys around the text model's.
void note_left_out(HfKeys& keys, const HfKeys& outer, const HfArchitecture& is,
                   const std::string& rows);

}  // namespace moesim
