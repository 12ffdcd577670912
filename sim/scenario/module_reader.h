// SPDX-License-Identifier: Apache-2.0
// Keys of an iteration that treat modules of a layer by themselves.
#pragma once

#include "sim/base/yaml.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

/// `fused_grouped_mlp`, after `precision` and `recompute` have been read; mistakes are recorded.
void read_fused_grouped_mlp(const YamlMap& scenario, IterationSpec& spec);

/// `offload`, after `recompute`, `paged_stash` and `fused_grouped_mlp`: refuses what Megatron-LM's
/// transformer_config.py (d98e8a64) does.
void read_offload(const YamlMap& scenario, IterationSpec& spec);

}  // namespace moesim
