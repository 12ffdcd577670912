// SPDX-License-Identifier: Apache-2.0
// Tables of counts whose names do not say that they are: each expert is there once per layer.
#pragma once

#include <optional>
#include <string>

#include "sim/import/import_sink.h"

namespace moesim {

/// The only field with whole numbers that no row of a table uses, if it lists each expert once per
/// layer: it is taken for counts, with a warning. Throws Error for such a table if no field, or
/// several, can be counts; warns if rows may as well be choices.
std::optional<std::string> unnamed_counts(const std::string& path, ImportSink& sink);

}  // namespace moesim
