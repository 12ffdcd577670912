// SPDX-License-Identifier: Apache-2.0
// A sweep as a document that reports draw.
#pragma once

#include <string>

#include "sim/sweep/store.h"

namespace moesim {

/// JSON with the format "moesim-sweep" (docs/sweeps.md): rows as lists of values in the order of
/// `columns`, rows that `where` admits. Throws Error for a wrong condition, and for more rows than
/// a page can show.
std::string sweep_document(const SweepReader& reader, const std::string& where = "");

/// Whether a file is one of SQLite, by its first bytes.
bool is_sqlite_file(const std::string& path);

}  // namespace moesim
