// SPDX-License-Identifier: Apache-2.0
// The jobs of a comparison in its workers.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/run/comparison_options.h"
#include "sim/run/workers.h"

namespace moesim {

/// Runs jobs as the options say; `times`: of an outcome. Throws Interrupted if a signal came and
/// nothing is to be kept.
template <class Outcome, class Times>
JobResults<Outcome> run_as_asked(const std::vector<WorkerJob<Outcome>>& jobs,
                                 const ComparisonOptions& options, Times times) {
  JobEvents<Outcome> events;
  events.heard = options.heard;
  int number = 0;
  events.finished = [&](std::size_t job, const Outcome& outcome) {
    ++number;
    if (!options.finished) return;
    options.finished({number, static_cast<int>(jobs.size()), jobs[job].name, times(outcome),
                      outcome.unsuitable});
  };
  JobResults<Outcome> done = run_jobs(jobs, options.workers, events);
  const bool any = std::ranges::any_of(
      done.results, [](const auto& outcome) { return outcome && outcome->unsuitable.empty(); });
  if (done.signal != 0 && !(any && options.keep_finished)) {
    throw Interrupted(done.signal, any ? "interrupted; nothing was written"
                                       : "interrupted before a case was done; nothing was written");
  }
  return done;
}

}  // namespace moesim
