// SPDX-License-Identifier: Apache-2.0
// SQLite reads rows of nothing from pages that a file has lost.
#pragma once

#include <string>

namespace moesim {

/// Throws Error for a database of SQLite with fewer pages than its header counts. Only for files
/// that nobody writes to.
void check_database_size(const std::string& path);

}  // namespace moesim
