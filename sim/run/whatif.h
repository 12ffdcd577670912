// SPDX-License-Identifier: Apache-2.0
// moesim whatif: simulates the cases of a scenario on its clusters and on changed clusters.
#pragma once

#include <string>
#include <vector>

#include "sim/report/whatif_table.h"
#include "sim/run/cluster_changes.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Opens the inputs of a scenario and applies `what` to every cluster. Throws Error if a cluster
/// does not have what `what` names, or if the scenario cannot run on what is left of a cluster.
Inputs open_changed_inputs(const Scenario& scenario, const WhatIf& what);
/// The same of inputs that are open: those of the scenario. Files are not read again.
Inputs changed_inputs(const Scenario& scenario, const Inputs& opened, const WhatIf& what);

/// Plans and simulates every case before and after the change, as `compare` does.
std::vector<WhatIfCase> simulate_whatif(const Scenario& scenario, const Inputs& before,
                                        const Inputs& after, int workers);

/// The changes as flags, such as "--scale nic.bandwidth=1.5 --fail gpu:7".
std::string text_of(const WhatIf& what);

/// The JSON document that --json writes. docs/whatif.md has its schema.
std::string whatif_document(const Scenario& scenario, const Inputs& before, const WhatIf& what,
                            const std::vector<WhatIfCase>& cases, const std::string& version);

}  // namespace moesim
