// SPDX-License-Identifier: Apache-2.0
// Models read from a config.json of Hugging Face.
#pragma once

#include <string>
#include <vector>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/model/moe_model.h"
#include "tests/error_of.h"

namespace moesim {

inline MoeModel model_of(const std::string& json, const std::vector<Override>& overrides = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/config.json";
  write_file(path, json);
  return read_moe_model(path, overrides);
}

inline std::string refusal_of(const std::string& json) {
  return error_of([&] { model_of(json); });
}

}  // namespace moesim
