// SPDX-License-Identifier: Apache-2.0
// Dynamic expert grouping after "Breaking the MoE LLM Trilemma" (arXiv 2510.02345). The paper
// leaves most steps open: all of this is our interpretation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/mechanism/placement/affinity/symmetric_eigen.h"
#include "sim/plan/placement.h"

namespace moesim {

/// Cosine of the experts' rows of a co-choice matrix, 1 on the diagonal; an expert that was never
/// chosen is similar to none. Traces have no weights, so the paper's mix of weights and activations
/// is reduced to its activation part.
SquareMatrix co_choice_similarity(const PairMatrix& co);

/// similarity <- (1 - rate) similarity + rate newest; the paper's rate is 0.05.
void update_similarity(SquareMatrix& similarity, const SquareMatrix& newest, double rate = 0.05);

/// The same with pairs below `floor` dropped to 0; the paper's floor is 0.1.
SquareMatrix without_weak_pairs(SquareMatrix similarity, double floor = 0.1);

/// Groups of equal size (or one apart): seeded K-means++ over the rows of 1 - similarity, then the
/// experts that lose least move from groups too large to groups too small. Groups ascend within.
std::vector<std::vector<ExpertId>> similar_groups(const SquareMatrix& similarity, int groups,
                                                  std::uint64_t seed);

/// The part (node or GPU) of every group: by falling load to the least loaded part that has room
/// for another group; `parts` divides the groups (Error).
std::vector<int> place_groups(const std::vector<std::vector<ExpertId>>& groups,
                              std::span<const std::int64_t> loads, int parts);

}  // namespace moesim
