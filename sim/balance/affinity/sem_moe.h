// SPDX-License-Identifier: Apache-2.0
// Sem-MoE (arXiv 2503.04398): experts and the token ids that choose them share a GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/placement.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// Choices of one layer in a profile: [token id][expert].
using TokenProfile = std::vector<std::vector<std::int64_t>>;

/// Adds the choices of a layer; `token_ids` holds the vocabulary id of every token. Throws Error
/// for ids outside the profile.
void add_to_profile(TokenProfile& profile, const IdRows& ids, std::span<const int> token_ids);

/// A cluster, and so a GPU, for every expert and every token id.
struct CoClusters {
  std::vector<GpuId> of_expert;
  std::vector<GpuId> of_token;  // -1: not in the profile
};

/// LAR: share of the profile's choices that find their expert on the token's own GPU; 0 without
/// choices. Token ids without a cluster count as misses.
double local_activation_rate(const TokenProfile& profile, const CoClusters& clusters);

/// Alternates both sides from contiguous experts while LAR rises: token ids, the most frequent
/// first, go to the cluster with most of their experts that has room; experts swap clusters while a
/// swap raises LAR. Clusters hold equally many experts (Error unless gpus divides them) and choices
/// up to (1 + slack) x mean, or what no other cluster has room for. The paper states the objective;
/// the moves are ours.
CoClusters co_cluster(const TokenProfile& profile, int gpus, double slack = 0.05);

/// The GPU of every request when attention is data-parallel: of each `gpus` consecutive requests
/// one goes to each GPU, the strongest preference first. `favour` is [request][gpu]: choices that
/// the prompt's tokens would find there. Ties: lowest request, then GPU.
std::vector<GpuId> place_requests(const std::vector<std::vector<double>>& favour, int gpus);

}  // namespace moesim
