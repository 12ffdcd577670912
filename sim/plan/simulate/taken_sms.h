// SPDX-License-Identifier: Apache-2.0
// Multiprocessors that exchanges take from the kernels of their GPUs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"

namespace moesim {

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
