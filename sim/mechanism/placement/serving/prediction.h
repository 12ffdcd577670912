// SPDX-License-Identifier: Apache-2.0
// Replication by predicted load. No publication describes it: every step is our interpretation, the
// closest being GRACE-MoE (arXiv 2509.25041) and MoE-GPS (arXiv 2506.07366). Predictors: FadingLoad
// here, expect_after (path_profile.h) from the adjacent layer, and, as an upper bound, the true
// loads.
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/rank_space.h"
#include "sim/plan/assignment.h"

namespace moesim::prediction {

/// Loads of experts, those of older steps fading: kept x what was before + added x those of a step;
/// the first step counts whole. Expected of the next step are beta and 1 - beta (Ema; 0: the last
/// step's loads), in TensorRT-LLM decay and 1.
class FadingLoad {
 public:
  FadingLoad(double kept, double added) : kept_(kept), added_(added) {}
  static FadingLoad ema(double beta) { return {beta, 1 - beta}; }
  static FadingLoad decayed(double decay) { return {decay, 1}; }
  /// `begins`: a step, else these are further loads of the newest one.
  void add(const LoadMatrix& loads, bool begins = true);
  /// Empty before the first step.
  const std::vector<double>& load() const { return load_; }

 private:
  double kept_, added_;
  std::vector<double> before_;  // the newest step; empty: it is the first
  std::vector<double> newest_, load_;
};

/// Copies beyond the base placement.
struct Copies {
  SlotTable extra;                // [gpu]: kept ones first
  std::vector<ExpertId> dropped;  // wanted copies without a place, in the order they were tried
  std::vector<double> gpu_loads;  // predicted, copies of an expert sharing evenly
};

/// Copies for `extra_per_gpu` further slots on every GPU. Slot after slot wants the expert with the
/// most load per copy (lowest id) that is not everywhere yet; copies of `current` that are still
/// wanted keep their place; the others go, the heaviest share first, to the GPU with the least
/// predicted load that has a free slot and no copy. A copy that would raise the largest predicted
/// GPU load is dropped. `current` has a row per GPU, or none at all.
Copies replicate(std::span<const double> loads, const SlotTable& base, const SlotTable& current,
                 int extra_per_gpu);

/// The base placement with the copies behind it.
SlotTable table(const SlotTable& base, const Copies& copies);

/// Shares [rank][expert]: the rank's own copy, else its node's copies, else all, the choices dealt
/// out in proportion to 1 / predicted load of the copies' GPUs (GPUs without load: evenly, by
/// themselves).
std::vector<std::vector<Shares>> shares(const Placement& placement, const LoadMatrix& loads,
                                        std::span<const double> gpu_loads, const RankLevel& nodes);

}  // namespace moesim::prediction
