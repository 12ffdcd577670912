// SPDX-License-Identifier: Apache-2.0
// The policies of a scenario, each with the changes that it has keys for.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/inputs.h"

namespace moesim {

/// Adds the systems and their files. If only some of several policies have a key for a change of
/// all (policy.PATH=VALUE), it is left out for the others, and a warning names these. Throws Error
/// for other mistakes, and for a change that no policy has a key for.
void open_policies(const Scenario& scenario, Inputs& inputs, InputCache& cache);

/// The warning that these policies have no key for a change of all.
Diagnostic no_such_key(const std::string& change, const std::vector<std::string>& policies);

/// The scenario without the changes of all policies that this one has no key for.
Scenario without_unknown(Scenario scenario, const std::string& policy);

}  // namespace moesim
