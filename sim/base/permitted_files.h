// SPDX-License-Identifier: Apache-2.0
// Which files a process may read that works for others.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// From here on files that are read stay permitted when permit_only() is called.
void keep_read_files_permitted();

/// From here on this process, and the children that it starts, read only these files and what is in
/// these folders, links followed. To it all others are not there: nothing tells whether they are.
/// Paths that are not there are left out. For good: a second call throws std::logic_error.
void permit_only(const std::vector<std::string>& paths);

/// True for every path if nothing was limited.
bool is_permitted(const std::string& path);

/// The same of a file that is about to be read.
bool may_read(const std::string& path);

}  // namespace moesim
