// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/commands_flag.h"

#include "sim/base/piped_command.h"

namespace moesim {

void add_allow_commands(CommandLine& command) {
  command.add_flag(
      "--allow-commands", [] { allow_commands(); },
      "lets policies of kind external run their commands; read them first");
}

}  // namespace moesim
