// SPDX-License-Identifier: Apache-2.0
// moesim whatif: the cases of a scenario on its clusters and on changed ones.
#pragma once

#include <string>
#include <vector>

#include "sim/report/whatif_table.h"
#include "sim/run/cluster_changes.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// The inputs of a scenario of steps or iterations with every cluster changed. Throws Error for
/// what a cluster does not have, and if nothing runs on what is left of it.
Inputs open_changed_inputs(const Scenario& scenario, const WhatIf& what);

/// Plans and simulates both, each as `compare` does.
std::vector<WhatIfCase> simulate_whatif(const Scenario& scenario, const Inputs& before,
                                        const Inputs& after, int workers);

/// "--scale nic.bandwidth=1.5 --fail gpu:7"
std::string text_of(const WhatIf& what);

/// The JSON document (schema: docs/whatif.md).
std::string whatif_document(const Scenario& scenario, const Inputs& before, const WhatIf& what,
                            const std::vector<WhatIfCase>& cases, const std::string& version);

}  // namespace moesim
