// SPDX-License-Identifier: Apache-2.0
#include "sim/base/program_folder.h"

#include "sim/base/platform.h"

namespace moesim {

std::filesystem::path program_folder() {
  static const std::filesystem::path folder = own_program().parent_path();
  return folder;
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace moesim
