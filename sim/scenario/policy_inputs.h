// SPDX-License-Identifier: Apache-2.0
// The policies of a scenario, each with the changes that it has keys for, and the inputs in which
// they differ from the others.
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

/// Opens the scenario again for every policy that has keys of its own, another expert-parallel
/// degree by default, or a dispatch that no CUDA graph of a serving pass holds. Warns if iterations
/// of policies have unequal numbers of tokens.
void open_own_inputs(const Scenario& scenario, Inputs& inputs, InputCache& cache);

/// The keys of the policies that have some of their own, a line for each: "#   megatron: tp 8".
std::string own_text(const Scenario& scenario);
/// The policies whose passes leave their CUDA graphs, a line for each.
std::string graphs_text(const Scenario& scenario, const Inputs& inputs);
/// The policies with another expert-parallel degree on a cluster (an index), a line for each
/// degree.
std::string ep_text(const Inputs& inputs, std::size_t cluster);

}  // namespace moesim
