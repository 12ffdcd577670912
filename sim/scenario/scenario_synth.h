// SPDX-License-Identifier: Apache-2.0
// The trace of a scenario that is not recorded as it is: drawn (the key `synth`), or cut into steps
// for the GPUs of every cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// Chooses the expert-parallel degree, the batches and the steps of every cluster. One of several
/// clusters that they do not fit is marked as unsuitable; throws Error when they fit none.
void fit_trace(const Scenario& scenario, Inputs& inputs, InputCache& cache);
/// The same without what others have cut.
void fit_trace(const Scenario& scenario, Inputs& inputs);

/// Whether a change, as PATH or PATH=VALUE, is of this key.
bool is_synth_key(const std::string& change);

/// What a scenario's routing is drawn from, if it is. `trace` and `synth` exclude each other, but
/// what a flag says wins over the file. Mistakes are recorded.
std::optional<SynthOptions> synth_in(const YamlMap& scenario, const std::vector<Override>& flags);

/// The `synth` of a scenario that has one, whole:
/// - experts and top-k are the model's unless stated;
/// - layers are the first ones of the model that have experts, as many as stated. If nothing is
///   stated they are the layers that the scenario replays, and with `layers: recorded` one.
/// Throws Error for more layers than the model has.
SynthOptions drawn_for(const Scenario& scenario, const MoeModel& model);

}  // namespace moesim
