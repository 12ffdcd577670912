// SPDX-License-Identifier: Apache-2.0
// What a model of a Hugging Face config.json is called.
#pragma once

#include <string>

#include "sim/model/hf_keys.h"

namespace moesim {

/// A name may come from anybody: what could end its quotes becomes an underscore.
std::string hf_harmless(std::string name);

/// The last folder's name if the file is called config.json, as in a clone of a repository; else
/// the file's.
std::string hf_model_name(const HfKeys& keys, const std::string& path, const std::string& type);

}  // namespace moesim
