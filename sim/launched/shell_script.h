// SPDX-License-Identifier: Apache-2.0
// What a bash script would run, without running any of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/launched/lined_text.h"
#include "sim/launched/shell_expansion.h"

namespace moesim {

/// A command with its words expanded, and the variables that it is given ("A=1 program").
struct ShellCommand {
  std::vector<LinedText> words;
  std::map<std::string, LinedText> environment = {};
  int line = 0;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  ShellVariables variables;                              // as they are at the end
  std::map<std::string, std::vector<LinedText>> sbatch;  // "--nodes" -> "4"
  std::map<std::string, LinedText> documents;            // what "cat > NAME << EOF" writes, by NAME
  std::vector<std::string> doubts;  // lines that a shell may read otherwise than meant
};

/// Follows assignments in the order of the file, and those branches of `if` whose conditions
/// compare known words; a variable that other branches set is not known. Commands in strings of
/// `bash -c`, `sh -c` and `eval` count as the script's own. Throws Error as raw_commands.
ShellScript read_shell_script(const std::string& text, const std::string& file);

}  // namespace moesim
