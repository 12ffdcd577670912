// SPDX-License-Identifier: Apache-2.0
// A model as Hugging Face describes it: config.json of transformers.
#pragma once

#include <string>

#include "sim/base/error.h"

namespace moesim {

/// Whether a file's name and keys are those of a config.json, not of a model file of ours.
bool is_hf_config(const std::string& path, const std::string& text);

/// What a config.json says, as the text of a model file of ours. Throws Error for an architecture
/// that is not known, and for each key that is missing.
std::string model_text_of_hf_config(const std::string& path, const std::string& text);

/// A mistake in such a text as one of the config.json, by the config's name of the key. There is no
/// line of it.
Error error_of_hf_config(const Error& error, const std::string& path, const std::string& config);

}  // namespace moesim
