// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM's online balancer (moeLoadBalancer.cpp, moeLoadBalanceKernels.cu): a replication and
// a placement that ignore topology, and layers updated in rotation. Its load is
// prediction::FadingLoad::decayed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::trt_llm {

/// Copies per expert: one each, each further slot to the most load per copy (ties: higher id); all
/// loads 0: even, the remainder to low ids. Throws Error when there are fewer slots than experts.
std::vector<int> replicate(std::span<const double> loads, int slots);

/// Copies to ranks of `slots_per_rank` slots: the heaviest first (ties: lower expert), to the least
/// loaded rank with room (ties: lower rank). Throws Error when there are fewer slots than experts.
SlotTable place(std::span<const double> loads, int ranks, int slots_per_rank);

/// Which layers are updated when: layer l in set l mod q, q = ceil(layers / per_iteration), one set
/// per iteration; an iteration without an update follows when the first and last set are as large.
class Rotation {
 public:
  /// Throws Error unless both are positive (0 updates per iteration: a static placement).
  Rotation(int layers, int per_iteration);
  int sets() const { return sets_; }
  int period() const { return sets_ + (layers_ % sets_ == 0 ? 1 : 0); }
  /// Indices of the layers updated in an iteration, ascending; iterations count after warm-up.
  std::vector<int> layers_at(std::int64_t iteration) const;

 private:
  int layers_;
  int sets_;
};

/// Replicas round robin: (block + index among the block's choices of that expert + offset) modulo
/// the replicas; a block is 1024 token-slots of the source rank. `choices` are those of one (source
/// rank, expert) in token order, k the choices per token; upstream optionally offsets by EP rank.
Shares round_robin(std::span<const Choice> choices, int k, std::span<const SlotId> replicas,
                   int offset);

}  // namespace moesim::trt_llm
