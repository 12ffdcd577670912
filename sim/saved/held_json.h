// SPDX-License-Identifier: Apache-2.0
// What the execution of a whole iteration needs in addition to its plan, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/saved/held_iteration.h"
#include "sim/saved/served_layer.h"

namespace moesim {

/// Of the model it keeps what hardware can execute (check_can_execute): all else is as in a model
/// that states nothing of it.
nlohmann::ordered_json held_json(const HeldIteration& held);

/// Throws nlohmann's exceptions if a part is missing or of another kind, and Error unless
///  - each of the `gpus` of the plan is on one stage, and stages are equally large;
///  - positions, layers, embedding and head are each there once;
///  - a tensor group divides what it divides evenly, and rings pass all replicas once.
HeldIteration read_held(const nlohmann::ordered_json& json, int gpus);

/// Throws Error unless `layers` are all MoE layers of all microbatches, once, with their tokens.
void check_layers_of(const HeldIteration& held, const std::vector<ServedLayer>& layers);

}  // namespace moesim
