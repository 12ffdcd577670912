// SPDX-License-Identifier: Apache-2.0
// The files of formats.py, count_formats.py and log_formats.py, one routing in every format; those
// of wrong_formats.py are refused.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "sim/import/importer.h"
#include "tests/trace/scratch.h"

namespace moesim {

/// Their folder; they are written once.
inline const std::string& formats() {
  static const ScratchFolder folder;
  static const bool written = [] {
    const std::string tests = std::string(MOESIM_ROOT) + "/tests/import/";
    bool done = true;
    for (const char* name :
         {"formats.py ", "count_formats.py ", "log_formats.py ", "wrong_formats.py "}) {
      done = done && std::system(("python3 " + tests + name + folder.path()).c_str()) == 0;
    }
    return done;
  }();
  EXPECT_TRUE(written);
  return folder.path();
}

/// The model that formats.py describes.
inline ImportOptions options_of(const std::string& input, const std::string& output) {
  ImportOptions options;
  options.inputs = {input};
  options.output = output;
  options.experts = 8;
  options.top_k = 2;
  options.moe_layers = {1, 2};
  options.model_layers = 3;
  return options;
}

/// What formats.py calls choice().
inline std::vector<int> choice(int token, int layer) {
  const int first = (3 * token + 5 * layer) % 8;
  return {first, (first + 1 + token % 3) % 8};
}

/// A kind as the name of a test.
inline std::string test_name(std::string name) {
  for (char& c : name) c = c == '-' || c == '/' || c == '.' ? '_' : c;
  return name;
}

}  // namespace moesim
