// SPDX-License-Identifier: Apache-2.0
// Arguments that programs print at their start, or read from YAML.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/launched/named_arguments.h"

namespace moesim {

/// "  tensor_model_parallel_size ........ 2" between Megatron's lines of dashes, whatever launchers
/// put before each line; nothing without these lines. False and None are left out, True is a
/// switch.
std::optional<NamedArguments> megatron_dump(const std::string& text, const std::string& file);

/// What follows `mark` in Python's words, "{'tensor_parallel_size': 8}" or "(tp_size=8)"; the names
/// of inner mappings follow a point ("eplb-config.window-size"). Nothing without the mark.
std::optional<NamedArguments> python_dump(const std::string& text, const std::string& mark,
                                          const std::string& file);

/// The members of a value such as '{"window_size": 1000}', named "PREFIX.window-size".
void add_members(std::string_view value, const NamedArgument& of, NamedArguments& into);

/// The keys of a YAML file. `last_only`: without the names of the mappings around them.
void add_yaml(const std::string& text, const std::string& file, bool last_only, int first_line,
              NamedArguments& into);

}  // namespace moesim
