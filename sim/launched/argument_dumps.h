// SPDX-License-Identifier: Apache-2.0
// Arguments that programs print at their start (with Python's words for mappings and calls, as far
// as logs have them), or read from YAML.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/launched/named_arguments.h"

namespace moesim {

struct PythonItem {
  std::string name;                 // of inner mappings joined by points
  std::vector<std::string> values;  // of a list all; else one, without quotes
};

/// The items of "{'a': 1, 'b': [2, 3]}" or "(a=1, b={'c': 2})" from its bracket on; what is no
/// literal stays a text. Ends at the bracket that closes it, or at the end of the text.
std::vector<PythonItem> python_items(std::string_view text);

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
