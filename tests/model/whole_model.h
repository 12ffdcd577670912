// SPDX-License-Identifier: Apache-2.0
// The shipped models that are whole, with experts and without.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/data_files.h"
#include "sim/model/moe_model.h"

namespace moesim {

inline MoeModel shipped_model(const std::string& name) {
  const auto dense = data_names("models/dense");
  if (std::ranges::count(dense, name) > 0) return read_dense_model(data_file("models/dense", name));
  return read_moe_model(data_file("models/moe", name));
}

inline std::vector<std::string> whole_models() {
  std::vector<std::string> names = data_names("models/dense");
  for (const std::string& name : data_names("models/moe")) {
    if (shipped_model(name).missing_of_whole().empty()) names.push_back(name);
  }
  return names;
}

/// For the name of a parameterized test.
inline std::string test_name(std::string model) {
  std::ranges::replace(model, '-', '_');
  std::ranges::replace(model, '.', '_');
  return model;
}

}  // namespace moesim
