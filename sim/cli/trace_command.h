// SPDX-License-Identifier: Apache-2.0
// Subcommands of `moesim trace`, and functions that several subcommands use.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/flags/command_line.h"

namespace moesim {

void add_trace_check(CommandLine& trace);
void add_trace_import(CommandLine& trace);
void add_trace_serve(CommandLine& trace);
void add_trace_synth(CommandLine& trace);

/// Finds the folder of a trace by its path or name. Throws Error if there is none.
std::string find_trace(const std::string& name);

/// Parses "A:B" into {A, B}. If the text has another form, throws Error that names the flag.
std::pair<int, int> pair_of(const std::string& flag, const std::string& text);

/// Parses the values of --layers into model layer numbers. Each value is a number or FIRST:COUNT.
std::vector<int> layers_of(const std::vector<std::string>& texts);

/// Prints what a new trace folder holds.
void report_written(const std::string& output);

}  // namespace moesim
