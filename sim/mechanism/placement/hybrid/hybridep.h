// SPDX-License-Identifier: Apache-2.0
// How far HybridEP (arXiv 2510.19470) gathers experts on a cluster: the stream model with the
// cluster's own links.
#pragma once

#include <optional>
#include <vector>

#include "sim/mechanism/placement/hybrid/compression.h"
#include "sim/mechanism/placement/hybrid/domains.h"
#include "sim/mechanism/placement/hybrid/hybridep_levels.h"
#include "sim/mechanism/placement/hybrid/stream_model.h"
#include "sim/mechanism/placer.h"

namespace moesim {

/// What `auto` minimizes: Lat(S) as printed, of a forward pass and without latencies; or all that
/// moesim plans of a step that depends on S.
enum class DomainObjective { step, published };

struct HybridEpOptions {
  std::vector<int> domains;  // S per level; empty: the stream model's best
  DomainLevels levels = DomainLevels::cluster;
  DomainMatch match = DomainMatch::all;
  DomainObjective objective = DomainObjective::step;
  double compression = 1;
  bool fused = false;            // the codec's kernels, with the optimizer and the experts
  bool regather = false;         // in the backward pass, instead of keeping what was gathered
  bool whole_gradients = false;  // else they are compressed as the experts are
  std::optional<Seconds> pre_expert;
};

/// What every GPU gets out of a level when all exchange over it evenly: bytes that it sends to the
/// other workers of the level over the time of the busiest link, and the exchange's time besides.
/// `workers` as domain_workers gives them.
std::vector<StreamLevel> stream_levels(const EpGroups& groups, const std::vector<int>& workers);

/// PE when it is not given: the GEMMs of a layer's attention, if the model describes it, and of its
/// shared experts, on the shipped model of rank 0's GPU. Scores, gate and kernel launches are left
/// out.
Seconds pre_expert_estimate(const MoeModel& model, const Topology& topology, std::int64_t tokens);

/// An expert of a model as it travels; indices of 4 bytes.
ExpertCodec expert_codec(const MoeModel& model, const HybridEpOptions& options);

/// A gradient of one expert as it travels to its home.
Bytes gradient_message(const ExpertCodec& codec, const TrainingState& state,
                       const HybridEpOptions& options);

/// The all-reduce of the shared expert over an EP group of so many ranks, as a ring: 2 (G - 1) / G
/// of it to the next.
ByteMatrix shared_expert_ring(const ExpertCodec& codec, int ranks);

/// The domains that `auto` means for so many tokens per rank: the best by the objective.
std::vector<int> automatic_domains(const PlacementContext& context, const HybridEpOptions& options,
                                   const std::vector<int>& workers, std::int64_t tokens, int top_k);

}  // namespace moesim
