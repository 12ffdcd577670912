// SPDX-License-Identifier: Apache-2.0
// The process that simulates for the page: it keeps inputs between runs, and may die.
#pragma once

#include <string>
#include <vector>

#include "sim/explore/asked.h"

namespace moesim {

/// What the process says of a request: any number of the first three, then one of the others.
enum class PageNews : char {
  opened = 'o',    // JSON: the scenario, the resolved topologies
  progress = 'p',  // a number from 0 to 1
  note = 'n',      // a sentence
  document = 'd',  // JSON: what was asked for
  error = 'e',     // JSON: {"error", "hint"}
  cancelled = 'c'
};

/// What the process needs to know before it starts.
struct SimulatingOptions {
  std::string version;
  GivenScenario given;
  std::string drops;  // the folder of dropped files
  int workers = 1;
};

/// In a child process: answers requests from `in` in frames to `out` until `in` ends. A request is
/// what read_asked() reads, or {"check": PATH} of a dropped file. SIGTERM cancels the one that
/// runs. It reads only the data of moesim, what the given scenario names, and dropped files, and
/// never runs commands.
bool simulate_for_page(const SimulatingOptions& options, int in, int out);

/// A request for the kind of a dropped file.
std::string check_request(const std::string& path);

}  // namespace moesim
