// SPDX-License-Identifier: Apache-2.0
// What bash makes of $NAME, ${NAME:-2}, "${ARRAY[@]}" and $((2 * N)). Commands are never run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/launched/lined_text.h"

namespace moesim {

struct ShellVariable {
  std::vector<LinedText> items;  // of an array; else one
  bool array = false;
  std::string undecided = {};  // why its value is not known; empty: it is
};

using ShellVariables = std::map<std::string, ShellVariable>;

/// The fields of a word, without quotes. What is not known stays as the script writes it: $(...),
/// names that nothing sets, and operators such as ${NAME##*/}. Throws Error if a word grows too
/// long.
std::vector<LinedText> expanded(const LinedText& word, const ShellVariables& variables,
                                const std::string& file);
/// The same as one text, as in an assignment.
LinedText expanded_text(const LinedText& word, const ShellVariables& variables,
                        const std::string& file);

/// Whether a text still has something that was not known.
bool has_unknown(const std::string& text);

/// "NAME" of a first $NAME or ${NAME...} that was not known; empty if a command would say it.
std::string unknown_name(const std::string& text);

/// How many of these characters a name has at the beginning.
std::size_t shell_name_length(std::string_view text);

}  // namespace moesim
