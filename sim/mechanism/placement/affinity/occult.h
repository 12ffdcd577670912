// SPDX-License-Identifier: Apache-2.0
// Occult (arXiv 2505.13345): experts that are chosen together share a GPU, tokens visit few GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/plan/placement.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// Placement rescheduling: GPU 0 starts from the pair chosen together most often, each other GPU
/// from the expert that goes least with those already placed; a GPU then takes the unplaced expert
/// that goes most with its members. `co` is symmetric with a zero diagonal; gpus divides the
/// experts (Error). Slots ascend by expert.
SlotTable place_occult(const PairMatrix& co, int gpus);

/// Pruning by score, for one token. `ranked` holds its choices by falling score, `scores` one score
/// per expert. The token keeps the first `allowed` distinct GPUs of its choices and takes the best
/// scores of all experts there, by falling score; unchanged when it has no more GPUs than that.
/// Throws Error when those GPUs hold fewer experts than it chose.
std::vector<ExpertId> prune_by_score(std::span<const ExpertId> ranked,
                                     std::span<const float> scores, std::span<const GpuId> gpu_of,
                                     int allowed);

/// Similarity of every pair of experts: row-major, experts x experts.
struct ExpertSimilarity {
  int experts = 0;
  std::vector<double> values;
  double at(ExpertId a, ExpertId b) const {
    return values[a.index() * static_cast<std::size_t>(experts) + b.index()];
  }
};

/// Pruning by similarity: as above, but each choice outside the allowed GPUs is replaced, best
/// score first, by the most similar expert on them that is not chosen yet. Places are kept.
std::vector<ExpertId> prune_by_similarity(std::span<const ExpertId> ranked,
                                          const ExpertSimilarity& similarity,
                                          std::span<const GpuId> gpu_of, int allowed);

}  // namespace moesim
