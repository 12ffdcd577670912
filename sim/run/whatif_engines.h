// SPDX-License-Identifier: Apache-2.0
// moesim whatif of runs of engines: their figures on a cluster and on a changed one.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/run/cluster_changes.h"
#include "sim/run/engine_cases.h"

namespace moesim {

/// A case before and after the change.
struct WhatIfEngine {
  EngineCase before, after;
};

/// Runs every case of a scenario with requests on both clusters. Throws Error for pools that are
/// apart: keys and values move over links that are read from files.
std::vector<WhatIfEngine> run_whatif(const Scenario& scenario, const Inputs& before,
                                     const Inputs& after, int workers);

/// TTFT, TPOT and tokens per second and GPU, before and after, and what these need to be read.
Printout whatif_table(const Scenario& scenario, const std::vector<WhatIfEngine>& cases);

/// The JSON document that --json writes.
std::string whatif_document(const Scenario& scenario, const Inputs& before, const WhatIf& what,
                            const std::vector<WhatIfEngine>& cases, const std::string& version);

}  // namespace moesim
