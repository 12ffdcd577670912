// SPDX-License-Identifier: Apache-2.0
// The identity of the files that an import reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moesim {

/// Whether a file or folder in an input is none of it: what a file manager or editor keeps there.
bool is_hidden(const std::filesystem::path& path);

/// The files of inputs, those of folders by name. Throws Error for one that is not there.
std::vector<std::string> input_files(const std::vector<std::string>& inputs);

/// Their names and XXH3 (128 bits), as a JSON list. Large files do not stay in memory.
std::string input_hashes(const std::vector<std::string>& inputs);

}  // namespace moesim
