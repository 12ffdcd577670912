// SPDX-License-Identifier: Apache-2.0
// What becomes of each argument of a software: a row of a table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/launched/launch_file.h"
#include "sim/launched/launched.h"
#include "sim/launched/named_arguments.h"

namespace moesim {

enum class ArgumentUse {
  count,    // a whole number from 1: the value of `key`
  value,    // as it is, the value of `key`
  on,       // true: `key` is true; false: `key` is false
  off,      // the opposite
  size,     // of the model
  read,     // the reader of the software looks at it
  ignored,  // no time depends on it
  left_out  // time depends on it, and nothing here can say it; `key`: values that change nothing
};

/// `names` are separated by blanks; a name that ends in '*' begins others.
struct ArgumentRow {
  std::string_view names;
  ArgumentUse use;
  std::string_view key = "";
  Takes takes = Takes::one;
};

using ArgumentTable = std::span<const ArgumentRow>;

const ArgumentRow* row_of(ArgumentTable table, const std::string& name);
/// What a flag takes; one value if the table does not know it.
Takes takes_of(ArgumentTable table, const std::string& name);

/// Sets the keys of all rows that need no reader, and lists what is left out.
void take_arguments(ArgumentTable table, const LaunchFile& launch, Launched& launched);

/// The first of several names that an argument has; null if none is there.
const NamedArgument* argument_of(const LaunchFile& launch, std::string_view names);
/// Whether a switch is on.
bool is_on(const LaunchFile& launch, std::string_view names);
/// The whole number from `least` on that an argument has; `absent` without it. Throws Error.
std::int64_t count_of(const LaunchFile& launch, std::string_view names, std::int64_t absent,
                      std::int64_t least = 1);
/// The text that an argument has. Throws Error if a variable or command would say it.
std::string word_of(const LaunchFile& launch, std::string_view names, const std::string& absent);
/// The same of an argument.
std::int64_t number_of(const LaunchFile& launch, const NamedArgument& argument,
                       std::int64_t least = 1);
/// Throws Error if the value is not known.
void require_known(const LaunchFile& launch, const NamedArgument& argument);

}  // namespace moesim
