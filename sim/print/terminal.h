// SPDX-License-Identifier: Apache-2.0
// What is known of the terminal that somebody sits at.
#pragma once

#include <cstdio>

namespace moesim {

/// Whether somebody sits there: a terminal with a size. Launchers such as mpirun give their ranks
/// terminals without one.
bool is_terminal(std::FILE* stream);

/// Characters of a line; 0, for any number, if the stream is not a terminal. The variable COLUMNS
/// says it for both, if it is set.
int terminal_width(std::FILE* stream);

/// Only terminals, and neither where NO_COLOR is set (https://no-color.org) nor where TERM is dumb.
bool takes_color(std::FILE* stream);

/// Whether nobody wants to see progress and hints (--quiet), in all of the process.
bool is_quiet();
void be_quiet();

}  // namespace moesim
