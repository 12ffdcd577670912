// SPDX-License-Identifier: Apache-2.0
// Which GPU gets a token that chooses an expert, as the placement of the very step has it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/plan/assignment.h"
#include "sim/plan/rank_walk.h"

namespace moesim {

/// The GPU that serves the next choice of every expert by one source rank. If ranks spread the
/// choices of an expert over replicas, it changes with every choice that is served: a rule that
/// reads it before each token knows the GPUs that the token goes to.
class ServingGpus {
 public:
  /// The assignment must outlive it.
  explicit ServingGpus(const Assignment& assignment);
  /// Goes to a rank, whose choices are served from the first one on; stays at the same one.
  void enter(GpuId source);
  /// [expert]
  std::span<const GpuId> gpus() const { return gpus_; }
  /// Serves the choices of the rank's next token; dropped ones are nobody's.
  void serve(std::span<const std::uint16_t> experts);

 private:
  void advance(ExpertId expert);

  const Assignment& assignment_;
  GpuId source_{-1};
  std::span<const GpuId> gpus_;
  std::vector<GpuId> upcoming_;   // what gpus_ views if the assignment is split
  std::optional<RankWalk> walk_;  // one choice of every expert ahead
};

}  // namespace moesim
