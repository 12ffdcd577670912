// SPDX-License-Identifier: Apache-2.0
// Tables of iterations for tests.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/predict.h"
#include "sim/evidence/published.h"

namespace moesim {

inline PaperTable rows_table(const std::string& rows, const std::string& more = "") {
  return parse_paper_table("title: Rows\nsource: made up\n" + more + "rows:\n" + rows, "rows.yaml");
}

/// A text whose columns are apart by one space each, whatever their widths.
inline std::string squeezed(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == ' ' && (all.empty() || all.back() == ' ')) continue;
    if (c == '\n' && !all.empty() && all.back() == ' ') all.pop_back();
    all += c;
  }
  return all;
}

/// One whose stages run forwards of these seconds.
inline SimulatedIteration iteration_of(double seconds, double experts, double overlapped,
                                       const std::vector<double>& forwards) {
  SimulatedIteration of;
  of.times.iteration = Seconds(seconds);
  of.times.parts[static_cast<std::size_t>(IterationPart::experts)] = Seconds(experts);
  of.times.overlapped = Seconds(overlapped);
  for (const double forward : forwards) {
    of.stage_turns.emplace_back().of(TurnPart::forward) = Seconds(forward);
  }
  of.flop_per_token = 1e9;
  return of;
}

}  // namespace moesim
