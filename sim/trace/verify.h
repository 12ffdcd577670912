// SPDX-License-Identifier: Apache-2.0
// Reads every element of a trace and reports every problem.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/progress.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// The largest plausible source rank. No cluster has so many ranks; a larger number comes from a
/// damaged file.
inline constexpr int max_source_rank = (1 << 20) - 1;

/// Mistakes in the expert ids of one layer. Counts both kinds and keeps the first of each, because
/// a damaged file has millions.
struct IdProblems {
  std::int64_t out_of_range = 0;        // ids >= experts
  std::int64_t out_of_range_token = 0;  // of the first
  int out_of_range_id = 0;              // of the first
  std::int64_t repeated =
      0;  // rows that hold an id twice; rows with an id out of range not counted
  std::int64_t repeated_token = 0;  // of the first
  int repeated_id = 0;              // of the first
  bool any() const { return out_of_range > 0 || repeated > 0; }
};

/// Whether a gate gives a choice such a weight: a finite number from 0 up.
bool is_weight(float value);

/// Checks that ids are below `experts` and distinct in every row.
IdProblems check_ids(const IdRows& rows, int experts);

/// Every problem of a trace directory, in the order of steps and layers; empty when it is sound. A
/// step that an interrupted recording left unfinished is a warning: readers ignore it.
std::vector<Diagnostic> verify_trace(const std::string& directory,
                                     const TraceProgress& progress = {});

}  // namespace moesim
