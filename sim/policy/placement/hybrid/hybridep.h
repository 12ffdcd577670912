// SPDX-License-Identifier: Apache-2.0
// How far HybridEP (arXiv 2510.19470) gathers experts on a cluster: the stream model with the
// cluster's own links.
#pragma once

#include <vector>

#include "sim/balance/hybrid/compression.h"
#include "sim/balance/hybrid/stream_model.h"
#include "sim/policy/placer.h"

namespace moesim {

/// What every GPU gets out of a level when all exchange over it evenly: bytes that it sends to the
/// other workers of the level over the time of the busiest link; latencies are left out, as in the
/// stream model. `workers` as domain_workers gives them.
std::vector<StreamLevel> stream_levels(const EpGroups& groups, const std::vector<int>& workers);

/// PE when it is not given: the GEMMs of a layer's attention, where the model describes it, and of
/// its shared experts, on the shipped model of rank 0's GPU. Scores, gate and kernel launches are
/// left out.
Seconds pre_expert_estimate(const MoeModel& model, const Topology& topology, std::int64_t tokens);

/// An expert of a model as it travels; indices of 4 bytes.
ExpertCodec expert_codec(const MoeModel& model, double compression);

}  // namespace moesim
