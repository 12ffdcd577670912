// SPDX-License-Identifier: Apache-2.0
// A command line as data, for what is made of it: completions and manual pages.
#pragma once

#include <string>
#include <vector>

#include "sim/flags/command_line.h"

namespace moesim {

struct FlagInfo {
  std::vector<std::string> names;  // "-o", "--out"; of a positional argument its name
  std::string description;
  bool positional = false;
  bool takes_value = false;
};

struct CommandInfo {
  std::string name, description, footer;
  std::vector<FlagInfo> flags;  // that the help shows
  std::vector<CommandInfo> commands;
};

CommandInfo info_of(const CommandLine& command);

/// What values a flag or argument takes: a section of `moesim list`, words, or files (nothing).
struct FlagValues {
  std::string section;             // "topologies"
  std::vector<std::string> words;  // "csv"
};
FlagValues values_of(const std::string& name);

}  // namespace moesim
