// SPDX-License-Identifier: Apache-2.0
// Completion of commands, flags and names in shells. CLI11 cannot write it, and generators
// of other languages (shtab, clap_complete) read only command lines of their own libraries.
#pragma once

#include <string>

#include "sim/flags/command_info.h"

namespace moesim {

/// A script for bash, zsh or fish. It asks the program for names:
/// `PROGRAM completion names SECTION` prints one per line.
std::string completion_script(const CommandInfo& program, const std::string& shell);

}  // namespace moesim
