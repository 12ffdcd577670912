// SPDX-License-Identifier: Apache-2.0
// One step folder of a trace directory, memory-mapped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// A step folder's number and name, `step-<at least 8 digits>`.
struct StepFolder {
  std::int64_t number = 0;
  std::string path;
};

/// The step folders of a trace by ascending number; misnamed ones are added to `problems`.
std::vector<StepFolder> find_step_folders(const std::string& directory,
                                          std::vector<Diagnostic>& problems);

/// Opens a step. Checks headers, shapes and sequence lengths; reads no ids and weights, so that
/// opening a large trace takes no time. Returns null when something was added to `problems`.
std::shared_ptr<const TraceStep> open_step(const StepFolder& folder, const TraceInfo& info,
                                           std::vector<Diagnostic>& problems);

}  // namespace moesim
