// SPDX-License-Identifier: Apache-2.0
// Lines of what programs printed to a terminal.
#pragma once

#include <string>

namespace moesim {

/// Without escape sequences of terminals and without tags of mpirun ("[1,0]<stdout>:"), which are
/// also inside a row that was printed in pieces.
std::string plain_line(const std::string& line);

}  // namespace moesim
