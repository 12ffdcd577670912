// SPDX-License-Identifier: Apache-2.0
// Refusals of the file system as mistakes of the user.
#pragma once

#include <filesystem>

#include "sim/base/error.h"

namespace moesim {

/// What the file system refuses, as a mistake in the path that was given: links in a circle, or a
/// folder that may not be read.
inline Error bad_path(const std::filesystem::filesystem_error& e) {
  return error_in(e.path1().string(), "cannot be used: " + e.code().message(),
                  "check what is there and who may read it");
}

}  // namespace moesim
