// SPDX-License-Identifier: Apache-2.0
// The subcommands of moesim, one file each. A command's callback throws Error for bad input (exit
// code 2) and any other exception when the run failed (exit code 1).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/flags/command_line.h"

namespace moesim {

/// Adds each subcommand with its flags to the app.
void add_run_command(CommandLine& app);
void add_compare_command(CommandLine& app);
void add_place_command(CommandLine& app);
void add_plan_command(CommandLine& app);
void add_export_command(CommandLine& app);
void add_explain_command(CommandLine& app);
void add_list_command(CommandLine& app);
void add_explore_command(CommandLine& app);
void add_new_command(CommandLine& app);
void add_doctor_command(CommandLine& app);
void add_model_command(CommandLine& app);
void add_topology_command(CommandLine& app);
void add_topology_import(CommandLine& topology);
void add_trace_command(CommandLine& app);
void add_profile_command(CommandLine& app);
void add_calibrate_command(CommandLine& app);
void add_validate_command(CommandLine& app);
void add_papers_command(CommandLine& app);
void add_report_command(CommandLine& app);
void add_sweep_command(CommandLine& app);
void add_query_command(CommandLine& app);
void add_advise_command(CommandLine& app);
void add_failures_command(CommandLine& app);
void add_whatif_command(CommandLine& app);
void add_completion_command(CommandLine& app);
void add_man_command(CommandLine& app);
/// Adds "profile" below calibrate and validate, "steps" below calibrate and "serving" below
/// validate; `ran` says if it was what the user asked for.
void add_calibrate_profile(CommandLine& calibrate, const std::shared_ptr<bool>& ran);
void add_calibrate_steps(CommandLine& calibrate, const std::shared_ptr<bool>& ran);
void add_validate_profile(CommandLine& validate, const std::shared_ptr<bool>& ran);
void add_validate_serving(CommandLine& validate, const std::shared_ptr<bool>& ran);
/// What `moesim list` prints of some of its sections, as JSON.
std::string listed_json(const std::vector<std::string>& wanted);
/// Adds to the help of every command below the app how it is called, twice.
void add_examples(CommandLine& app);

}  // namespace moesim
