// SPDX-License-Identifier: Apache-2.0
// The kernels of a chain on one GPU, slower at times.
#pragma once

#include <cstdint>

#include "sim/plan/simulate/progress.h"

namespace moesim {

/// How many times as long kernels take.
struct KernelFactors {
  double bound_by_compute = 1, others = 1;
};

/// One kernel of a GPU's compute stream after the other (Progress::next_in_chain), each with the
/// work that is left of it. Nothing is looked at between changes of the factors.
class RunningChain {
 public:
  bool running() const { return op_.value >= 0; }
  /// The kernel that runs.
  OpId op() const { return op_; }
  std::int32_t participant() const { return participant_; }
  void start(const Progress& progress, OpId first, std::int32_t participant, Seconds now);
  /// Runs up to `now` by these factors, but does not end the last kernel.
  void run(Progress& progress, const KernelFactors& factors, Seconds now);
  /// Whether all have had what they take, after run().
  bool through(Seconds now) const { return running() && since_ <= now && left_ <= Seconds(0); }
  /// When all have if nothing changes; never (infinite) if none runs.
  Seconds end(const Progress& progress, const KernelFactors& factors) const;

 private:
  OpId op_{-1};
  std::int32_t participant_ = 0;
  bool bound_by_compute_ = false;
  Seconds since_, left_;  // of what it takes by itself, from then on
};

}  // namespace moesim
