// SPDX-License-Identifier: Apache-2.0
// Writes the arrays of one step into a folder, and folders that a crash cannot lose.
#pragma once

#include <string>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Writes the arrays of a step; they are on the disk when it returns. Throws Error.
void write_step_files(const TraceStep& step, const TraceInfo& info, const std::string& folder);

/// Throws Error if it cannot, or there is one.
void make_folder(const std::string& path);

/// Renames, and makes the name durable. Throws Error.
void rename_folder(const std::string& from, const std::string& to);

}  // namespace moesim
