// SPDX-License-Identifier: Apache-2.0
// --allow-commands: the only place where a person lets policies run programs.
#pragma once

#include "sim/flags/command_line.h"

namespace moesim {

void add_allow_commands(CommandLine& command);

}  // namespace moesim
