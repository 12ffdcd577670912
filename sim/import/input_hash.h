// SPDX-License-Identifier: Apache-2.0
// The identity of the files that an import reads.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// The files of inputs, those of folders by name. Throws Error for one that is not there.
std::vector<std::string> input_files(const std::vector<std::string>& inputs);

/// Their names and XXH3 (128 bits), as a JSON list. Large files do not stay in memory.
std::string input_hashes(const std::vector<std::string>& inputs);

}  // namespace moesim
