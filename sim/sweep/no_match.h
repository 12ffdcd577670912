// SPDX-License-Identifier: Apache-2.0
// What to say if no row of a sweep is as asked for: which values there are.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep/store.h"

namespace moesim {

/// The values of a column in the order of their rows, texts in quotes as SQL has them: "2, 'a'".
std::string values_text(const StoredRows& rows, const std::string& name);

/// "no scenario matches", with the values of the axes that the condition names.
std::string no_match_text(const SweepReader& reader, const std::string& where,
                          const std::vector<std::string>& axes);

/// What the file lacks, if its sweep has not come to its end; a comment line, or empty.
std::string unfinished_text(const SweepReader& reader);

}  // namespace moesim
