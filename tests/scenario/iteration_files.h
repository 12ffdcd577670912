// SPDX-License-Identifier: Apache-2.0
// Scenarios of training iterations with given keys.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "sim/scenario/scenario.h"
#include "tests/error_of.h"

namespace moesim {

inline const std::string inputs_text =
    "topology: h100-rail\nmodel: deepseek-v3\ntrace: /no/such\npolicy: megatron\n";

inline Scenario read_keys(const std::string& keys, const std::vector<Override>& flags = {}) {
  const auto path = std::filesystem::path(testing::TempDir()) / "iteration_test.yaml";
  write_file(path.string(), inputs_text + keys);
  const Scenario scenario = read_scenario(path.string(), flags);
  std::filesystem::remove(path);
  return scenario;
}

inline IterationSpec spec_of(const std::string& keys, const std::vector<Override>& flags = {}) {
  return read_keys(keys, flags).iteration.value();
}

/// The mistakes of a scenario of an iteration with these keys.
inline std::string mistakes_of(const std::string& keys, const std::vector<Override>& flags = {}) {
  return error_of([&] { read_keys(keys, flags); });
}

inline const std::string batch = "batch: {global: 64, sequence: 4096}\n";

}  // namespace moesim
