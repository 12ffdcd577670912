// SPDX-License-Identifier: Apache-2.0
// Inputs of the policies that differ from the others in more than their files.
#pragma once

#include <string>

#include "sim/scenario/inputs.h"

namespace moesim {

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
