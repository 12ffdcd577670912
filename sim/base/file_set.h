// SPDX-License-Identifier: Apache-2.0
// Files that belong together.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// A file that is to be.
struct NamedText {
  std::string path, text;
};

/// Writes all of the files, or none of them if one cannot be written: throws Error.
void write_files(const std::vector<NamedText>& files);

}  // namespace moesim
