// SPDX-License-Identifier: Apache-2.0
// A run of the page: the scenario it means, its inputs, its document.
#pragma once

#include <functional>
#include <string>

#include "sim/explore/asked.h"
#include "sim/run/comparison_options.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// The scenario that a request means, in its quick form if that was asked for. Throws Error.
Scenario scenario_of(const AskedRun& asked, const GivenScenario& given);

struct PageRunOptions {
  std::string version;
  int workers = 1;
  JobsHeard heard = {};
  /// Gets {scenario, clusters, model, recorded} before the first simulation.
  std::function<void(const std::string& json)> opened = nullptr;
};

/// The document of `moesim compare --json --intervals` (with --pictures if that was asked for), or
/// {"text"} of `moesim explain`. Throws Error, Interrupted after a signal.
std::string page_document(const AskedRun& asked, const GivenScenario& given,
                          const PageRunOptions& options, InputCache& cache);

}  // namespace moesim
