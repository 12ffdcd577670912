// SPDX-License-Identifier: Apache-2.0
// Logs as a terminal of some width showed them: what did not fit continues in the next line.
#pragma once

#include <string>
#include <vector>

namespace moesim {

struct LogLine {
  int number;  // in the file, from 1
  std::string text;
};

/// The lines as a test of nccl-tests printed them. The names of its columns tell the width: a
/// table never ends in the middle of them.
std::vector<LogLine> unwrapped(const std::vector<std::string>& lines);

}  // namespace moesim
