// SPDX-License-Identifier: Apache-2.0
// Where the running program is.
#pragma once

#include <filesystem>

namespace moesim {

/// The folder of the running program, links followed; empty if the system does not say.
std::filesystem::path program_folder();

/// Whether a path is a folder's, or of something in it. Both are absolute and without links.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace moesim
