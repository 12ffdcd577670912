// SPDX-License-Identifier: Apache-2.0
// What is asked of a comparison, and what it tells while it runs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/case_report.h"
#include "sim/run/jobs_heard.h"
#include "sim/run/timeline_file.h"

namespace moesim {

class PlannedSteps;

/// A policy on a cluster, with all its fidelities.
struct FinishedRun {
  int number = 0, of = 0;      // the first to end is 1
  std::string name;            // "h100-rail llep port"
  std::vector<Seconds> times;  // of a step (iteration), by fidelity; none if it was not run
  std::string unsuitable;      // why it was not run
};

struct ComparisonOptions {
  int workers = 1;            // processes; the results do not depend on their number. 0: this one
  bool bounds = false;        // asks for them, too: TimeBounds, and those of the token exchanges
  bool elasticities = false;  // of the first step or iteration
  bool pictures = false;      // what reports draw, TimeBounds included
  bool layers = false;        // of iterations, too: what each layer takes and moves
  bool every_gpu = false;     // simulates GPUs, too, that others could stand for
  bool every_microbatch = false;  // simulates those, too, that a steady state continues for
  std::optional<TimelineRequest> timeline = {};
  std::function<void(const FinishedRun&)> finished = nullptr;  // as they end
  JobsHeard heard = {};
  bool may_run_none = false;   // that no case can run is a result, too, and no Error
  bool least_times = false;    // what `port` cannot undercut (least_time)
  bool keep_finished = false;  // after a signal the cases that are done are a result
  /// Of the only case, in this process: steps that were planned before, or none. Then it leaves its
  /// own.
  std::shared_ptr<PlannedSteps>* kept = nullptr;
};

/// Why a case of a comparison that a signal ended early has no result.
inline constexpr const char* interrupted_reason = "the comparison was interrupted";

/// Counts the cases of a comparison.
struct CaseCount {
  int done = 0, all = 0;
  bool whole() const { return done == all; }
  /// "interrupted: 5 of 12 cases are done".
  std::string interrupted_text() const {
    return fmt::format("interrupted: {} of {} cases are done", done, all);
  }
};

inline CaseCount count_done(const std::vector<CaseResult>& cases) {
  const auto undone = std::ranges::count_if(cases, &CaseResult::interrupted);
  const int all = static_cast<int>(cases.size());
  return {all - static_cast<int>(undone), all};
}

}  // namespace moesim
