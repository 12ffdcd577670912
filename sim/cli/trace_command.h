// SPDX-License-Identifier: Apache-2.0
// The parts of `moesim trace` that make traces, and what they share with the others.
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

/// A trace's folder by its path or name. Throws Error when there is none.
std::string find_trace(const std::string& name);

/// "A:B" -> {A, B}; throws Error naming the flag.
std::pair<int, int> pair_of(const std::string& flag, const std::string& text);

/// Values of --layers, each a number or FIRST:COUNT -> model layer numbers.
std::vector<int> layers_of(const std::vector<std::string>& texts);

/// Tells what a new trace folder holds.
void report_written(const std::string& output);

}  // namespace moesim
