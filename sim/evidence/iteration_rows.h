// SPDX-License-Identifier: Apache-2.0
// The rows of a table of iterations.
#pragma once

#include <string>

#include "sim/evidence/published.h"

namespace moesim {

/// Reads what a table of iterations in the file `path` has in place of settings and figures
/// (docs/papers.md): a setting and a figure for each row. Mistakes are recorded; throws Error for
/// those of the shared file.
void read_iteration_rows(const YamlMap& root, const std::string& path, PaperTable& table);

}  // namespace moesim
