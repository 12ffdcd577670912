// SPDX-License-Identifier: Apache-2.0
// The best of a grid, found with few simulations at the fidelities that cost most.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/sweep/grid.h"

namespace moesim {

/// Names of all questions.
std::vector<std::string> advise_questions();
/// Axes of a question.
/// Throws Error for a cluster, a policy or a kind of scenario that the question is not about.
std::vector<SweepAxis> axes_of_question(const std::string& question, const SweepGrid& grid);

struct AdviseOptions {
  std::string version;
  int workers = 1;
  int shown = 5;
  double budget = 600;                   // seconds
  std::optional<double> most_part = {};  // of the possible ones: simulated at `port`. Else a fifth,
                                         // at least 12
  int finals = 3;                        // at `flow` if they are close; 0: none
  std::function<bool()> stop = [] { return false; };
  bool lossy = false;  // lossy candidates may win, too (winners.h)
};

/// Every candidate at `analytic`, some at `port` (search), the best of them at `flow`. The table
/// has the ranked few; the lines above it what was simulated and how sure the answer is, those
/// below it what the second would need. Nobody knows whether exchanges by data sheets are faster
/// than measured ones on the same links, so that candidates with them come last. Throws Error if
/// nothing can be simulated.
Printout advise(const SweepGrid& grid, const AdviseOptions& options);

}  // namespace moesim
