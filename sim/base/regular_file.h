// SPDX-License-Identifier: Apache-2.0
// Only regular files are read: opening a FIFO waits for ever, and a device never ends. SQLite reads
// rows of nothing from pages that a file has lost.
#pragma once

#include <string>

#include "sim/base/error.h"

namespace moesim {

/// Throws Error for a database of SQLite with fewer pages than its header counts. Only for files
/// that nobody writes to.
void check_database_size(const std::string& path);

/// The error for "-" where an input has to be a file.
Error no_input_here();

/// Throws Error for a FIFO, a device, a socket or a folder, and for what this process may not read
/// (permitted_files.h). What is not there passes: opening it says why.
void check_regular_file(const std::string& path);

}  // namespace moesim
