// SPDX-License-Identifier: Apache-2.0
// The keys of a scenario that describe a whole training iteration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/software.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

/// The keys that only an iteration has.
extern const std::vector<std::string> iteration_keys;
/// Whether a path such as "parallel.tp" is one of these keys, or below one.
bool is_iteration_key(const std::string& path);

/// Nothing when the scenario has neither `parallel` nor `batch`. Mistakes are recorded in the
/// document, wrong combinations with the rule that they break. The key `ep` next to `parallel.ep`
/// is one of them unless a flag says it (`ep_flagged`), which wins. `file` is for later errors.
/// What the scenario leaves open is as `software` has it.
std::optional<IterationSpec> read_iteration(const YamlMap& scenario, bool ep_flagged,
                                            const std::string& file, const Software& software);
/// Whether the scenario is of whole iterations: it has `parallel` or `batch`.
bool is_iteration(const YamlMap& scenario);

/// Bytes per parameter that the optimizer keeps unless the scenario says it: Muon has one moment,
/// of 4 bytes, less than the software's.
int default_optimizer_bytes(const std::optional<IterationSpec>& spec, const Software& software);

}  // namespace moesim
