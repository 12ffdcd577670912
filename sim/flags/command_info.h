// SPDX-License-Identifier: Apache-2.0
// A command line as data, with what is made of it: the manual page, and completion of commands,
// flags and names in shells. CLI11 cannot write them, and generators of other languages (shtab,
// clap_complete) read only command lines of their own libraries.
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

/// One page in the man macros of roff, a section per command.
std::string man_page(const CommandInfo& program, const std::string& version);

/// A script for bash, zsh or fish. It asks the program for names:
/// `PROGRAM completion names SECTION` prints one per line.
std::string completion_script(const CommandInfo& program, const std::string& shell);

}  // namespace moesim
