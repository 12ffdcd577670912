// SPDX-License-Identifier: Apache-2.0
// The words of a bash script, before anything in them is expanded.
#pragma once

#include <string>
#include <vector>

#include "sim/launched/lined_text.h"

namespace moesim {

/// Words up to the end of a line, a semicolon, "|", "&", "&&" or "||". Words keep their quotes;
/// an array's parentheses, $(...), `...` and <(...) are within one word.
struct RawCommand {
  std::vector<LinedText> words;
  LinedText here;  // the document behind "<<"
  int line = 0;
  char joined = 0;                   // '&' or '|' if "&&" or "||" follows
  std::vector<int> blank_ends = {};  // lines that end in a backslash and blanks
};

/// Comments, and backslashes that end a line, are left out; also those with blanks behind them, at
/// which a shell would end the command. Throws Error for a quote or parenthesis that nothing
/// closes. `file` is the name in messages.
std::vector<RawCommand> raw_commands(const LinedText& script, const std::string& file);

/// What a shell may read otherwise than meant: blanks behind a backslash, a command "--flag".
std::vector<std::string> doubts_of(const RawCommand& command);

/// The end of what begins at a quote, "$(", "${", "`" or "(": behind what closes it; npos if
/// nothing does.
std::size_t end_of_nested(const std::string& text, std::size_t begin);

}  // namespace moesim
