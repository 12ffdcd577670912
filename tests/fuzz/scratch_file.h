// SPDX-License-Identifier: Apache-2.0
// Files for readers that need a path. They are in one temporary folder of the process.
#pragma once

#include <string>
#include <string_view>

namespace moesim::fuzz {

const std::string& scratch_folder();
/// Writes a file into the scratch folder, with the folders of its name; returns its path.
std::string scratch_file(const std::string& name, std::string_view bytes);

}  // namespace moesim::fuzz
