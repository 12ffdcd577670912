// SPDX-License-Identifier: Apache-2.0
// Command lines of programs that no process runs.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/flags/command_line.h"

namespace moesim {

/// What a program says to its arguments, or its mistake and the hint.
inline std::string said_by(CommandLine& program, std::vector<std::string> words) {
  std::vector<char*> arguments;
  words.insert(words.begin(), "prog");
  for (std::string& word : words) arguments.push_back(word.data());
  try {
    return program.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const Error& e) {
    return e.diagnostics().front().message + "; " + e.diagnostics().front().hint;
  }
}

}  // namespace moesim
