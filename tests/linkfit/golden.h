// SPDX-License-Identifier: Apache-2.0
// Texts compared with files of tests/linkfit/golden.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "sim/base/files.h"

namespace moesim {

/// Compares with the file, or rewrites it when MOESIM_ACCEPT=1.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string file = MOESIM_ROOT "/tests/linkfit/golden/" + name;
  const char* accept = std::getenv("MOESIM_ACCEPT");
  if (accept != nullptr && std::string(accept) == "1") {
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, read_file(file)) << "MOESIM_ACCEPT=1 rewrites " << file;
}

}  // namespace moesim
