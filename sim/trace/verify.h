// SPDX-License-Identifier: Apache-2.0
// Reads every element of a trace and reports every problem.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/progress.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// More ranks than any cluster has: a source rank beyond comes from a damaged file.
inline constexpr int kMaxSourceRank = (1 << 20) - 1;

/// What is wrong with the expert ids of one layer: how many, and the first of each kind.
struct IdProblems {
  std::int64_t out_of_range = 0;  // ids >= experts
  std::int64_t out_of_range_token = 0;
  int out_of_range_id = 0;
  std::int64_t repeated = 0;  // rows that hold an id twice, of those with all ids in range
  std::int64_t repeated_token = 0;
  int repeated_id = 0;
  bool any() const { return out_of_range > 0 || repeated > 0; }
};

/// Checks that ids are below `experts` and distinct in every row.
IdProblems check_ids(const IdRows& rows, int experts);

/// Every problem of a trace directory, in the order of steps and layers; empty when it is sound.
/// What an interrupted recording left is a warning.
std::vector<Diagnostic> verify_trace(const std::string& directory,
                                     const TraceProgress& progress = {});

}  // namespace moesim
