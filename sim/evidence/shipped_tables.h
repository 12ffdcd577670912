// SPDX-License-Identifier: Apache-2.0
// The published tables that come with moesim.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/published.h"

namespace moesim {

/// Whether a pattern, NAME or NAME* for all that begin so, means this name.
bool is_meant(const std::string& name, const std::string& pattern);

/// The tables, by name; `only` some of them: NAME, NAME* for all that begin so, or either with
/// /FIGURE, for some figures of a table. Throws Error for a name that none has.
std::vector<PaperTable> shipped_paper_tables(const std::vector<std::string>& only);

}  // namespace moesim
