// SPDX-License-Identifier: Apache-2.0
// What a config.json says and a model file cannot hold, and what the model is called.
#pragma once

#include <string>

#include "sim/model/hf_architectures.h"
#include "sim/model/hf_keys.h"

namespace moesim {

/// A name may come from anybody: what could end its quotes becomes an underscore.
std::string hf_harmless(std::string name);

/// The last folder's name if the file is called config.json, as in a clone of a repository; else
/// the file's.
std::string hf_model_name(const HfKeys& keys, const std::string& path, const std::string& type);

/// Whether the keys are those of an attention that model files cannot say.
bool has_other_attention(const HfKeys& keys);

/// In which format the file stores its weights, as `checkpoint` of a model file; "": in none that
/// it knows.
std::string hf_checkpoint(const HfKeys& keys, const HfKeys& outer);

/// Notes it. `rows` is the type of rows and weights, `outer` the keys around the text model's.
void note_left_out(HfKeys& keys, const HfKeys& outer, const HfArchitecture& is,
                   const std::string& rows);

}  // namespace moesim
