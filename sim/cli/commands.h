// SPDX-License-Identifier: Apache-2.0
// The subcommands of moesim, one file each. A command's callback throws Error for bad input (exit
// code 2) and any other exception when the run failed (exit code 1).
#pragma once

namespace CLI {
class App;
}

namespace moesim {

/// Adds each subcommand with its flags to the app.
void add_run_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_list_command(CLI::App& app);
void add_topology_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_validate_command(CLI::App& app);

}  // namespace moesim
