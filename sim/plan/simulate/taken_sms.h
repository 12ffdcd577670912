// SPDX-License-Identifier: Apache-2.0
// Multiprocessors that exchanges take from the kernels of their GPUs, and chains of kernels that
// are slower at times.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
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

/// What an exchange takes on each of its GPUs: what it says, or, of a ring (gradients, parameters,
/// activations of tensor and context groups), what the transport of those says. A transfer between
/// two stages takes none.
int sms_of(const Plan& plan, const Op& exchange);
/// Whether any exchange takes some.
bool takes_sms(const Plan& plan);
/// Throws Error naming an exchange that takes more than its GPUs have, or say.
void check_sms(const Plan& plan, const GpuModels& gpus);

/// How many are taken on every GPU while exchanges run. Phases of one fused kernel share its
/// multiprocessors; those of different kernels add up.
class TakenSms {
 public:
  explicit TakenSms(const PricedPlan& plan);

  void enter(OpId exchange, GpuId gpu) { change(exchange, gpu, 1); }
  void leave(OpId exchange, GpuId gpu) { change(exchange, gpu, -1); }
  int on(GpuId gpu) const { return gpus_[gpu.index()].taken; }

 private:
  struct Gpu {
    int taken = 0;
    std::vector<std::pair<std::int32_t, int>> inside = {};  // kernel, exchanges of it that run
  };
  void change(OpId exchange, GpuId gpu, int by);

  std::vector<std::int32_t> sms_;        // [op]; or empty if none takes any
  std::vector<std::int32_t> kernel_of_;  // [op] of a fused transport, else below 0; or empty
  std::vector<Gpu> gpus_;
};

}  // namespace moesim
