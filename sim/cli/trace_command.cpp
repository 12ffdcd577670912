// SPDX-License-Identifier: Apache-2.0
// moesim trace.
#include <CLI/CLI.hpp>

#include "sim/cli/commands.h"

namespace moesim {

void add_trace_command(CLI::App& app) { app.add_subcommand("trace", "Routing traces"); }

}  // namespace moesim
