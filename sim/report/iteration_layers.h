// SPDX-License-Identifier: Apache-2.0
// What single layers of a training iteration take and move.
#pragma once

#include <vector>

#include "sim/report/metrics.h"

namespace moesim {

/// [layer] Attention and MoE block of every layer with a number, over all microbatches; means are
/// over the GPUs of its pipeline stage. `stages`: [GPU] its stage, below 0 if another
/// stands for it. Throws as add_step.
std::map<int, LayerMetrics> iteration_layers(const PricedPlan& plan, const Timeline& timeline,
                                             const std::vector<int>& stages,
                                             const Continued* continued = nullptr);

}  // namespace moesim
