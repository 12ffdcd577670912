// SPDX-License-Identifier: Apache-2.0
// An explanation as tables for a person and as JSON for a program.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/print/table.h"
#include "sim/report/explain.h"

namespace moesim {

/// The page: per pass the layer in order, what moves, links and times; then the lower bounds.
Printout explain_text(const Explanation& explanation, const Topology& topology);

/// The same figures, unrounded, as one JSON object (schema: docs/explain.md).
nlohmann::ordered_json explain_json(const Explanation& explanation, const Topology& topology);

}  // namespace moesim
