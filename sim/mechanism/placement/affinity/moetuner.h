// SPDX-License-Identifier: Apache-2.0
// MoETuner (arXiv 2502.06643): balanced clusters of experts, placed so that no GPU pair carries
// too many transitions between layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/plan/placement.h"

namespace moesim {

/// Splits the experts of one layer into non-empty clusters of about equal load: each expert by
/// falling load to the least loaded cluster (of fewest experts, lowest index). The authors solve an
/// integer program for the sum of |load - mean|. Clusters list experts ascending; at most one per
/// expert (Error).
std::vector<std::vector<ExpertId>> moetuner_clusters(std::span<const std::int64_t> loads,
                                                     int clusters);

struct MoetunerInput {
  std::vector<std::vector<std::int64_t>> loads;  // [layer][expert]
  std::vector<PairMatrix> transitions;           // layers - 1
  std::vector<double> seconds_per_token;         // [gpu][gpu], row-major, diagonal 0
  int gpus = 0;
};

struct MoetunerPlacement {
  std::vector<SlotTable> layers;
  double seconds = 0;  // sum over adjacent layers of the slowest GPU pair
  int spread = 0;      // most minus fewest experts of a GPU over all layers; 0 is the paper's rule
};

/// Clusters every layer, then gives each GPU one cluster per layer: pairwise swaps within a layer
/// while one lowers (sum of squared experts per GPU, seconds, seconds over all pairs) in that
/// order. The authors solve an integer program under spread = 0; clusters of free size may not
/// allow that, hence our order (unstated in the paper).
MoetunerPlacement place_moetuner(const MoetunerInput& input);

/// The objective of a placement: sum over adjacent layers of the largest transitions x seconds per
/// token of a GPU pair.
double moetuner_seconds(const MoetunerInput& input, const std::vector<SlotTable>& layers);

}  // namespace moesim
