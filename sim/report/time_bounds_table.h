// SPDX-License-Identifier: Apache-2.0
// Time bounds next to the simulated times, as columns of tables and as JSON (schema:
// docs/explain.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/time_bounds.h"

namespace moesim {

inline constexpr const char* time_bounds_title =
    "# what no such plan can beat, as a part of the simulated time";

/// A row with its bounds, which other rows have, too.
struct BoundedRow {
  Seconds simulated;
  TimeBounds bounds;
};

/// Adds a column per bound as a block of their own: parts of the simulated times, row by row.
void add_time_bounds(Table& table, int block, const std::vector<BoundedRow>& rows);

nlohmann::ordered_json time_bounds_json(const TimeBounds& bounds);

}  // namespace moesim
