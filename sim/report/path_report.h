// SPDX-License-Identifier: Apache-2.0
// The critical path as a table for a person and as JSON for a program (schema: docs/explain.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/path_sums.h"

namespace moesim {

/// One line per kind of work with time on the path, the longest first: time, share, what binds it
/// and the link that its exchanges wait for most. Times are of one of `plans` plans.
Table path_table(const PathSums& path, double plans);

/// One line per GPU, the longest first, at most `most`: its time on the path, and how long others
/// waited for it there.
Table path_gpu_table(const PathSums& path, double plans, std::size_t most);

/// "experts 41 %", with dispatch and combine as tokens; "-" of an empty path.
std::string path_text(const PathSums& path);

/// The sums, per plan.
nlohmann::ordered_json path_json(const PathSums& path, double plans);

/// Every segment, the first of the plan first.
nlohmann::ordered_json segments_json(const std::vector<PathSegment>& path, const Plan& plan);

}  // namespace moesim
