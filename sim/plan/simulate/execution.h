// SPDX-License-Identifier: Apache-2.0
// What all simulated backends share: a plan, its kernels and its exchanges through simulated time.
#pragma once

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"
#include "sim/plan/simulate/progress.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// One run of one checked plan.
class Execution {
 public:
  /// The plan must outlive it. Throws Error when it is for another number of GPUs or one of them
  /// cannot run its kernels. `ends`: how its network ends exchanges.
  Execution(const PricedPlan& plan, const GpuModels& gpus, HostsCompute hosts = HostsCompute::alone,
            Progress::ExchangeEnds ends = Progress::ExchangeEnds::one_by_one);

  /// Runs it, once. Throws std::runtime_error naming the ops that never end.
  Timeline run(Events& events, const MakeNetwork& make_network) &&;

 private:
  const PricedPlan& plan_;
  const GpuModels& gpus_;
  HostsCompute hosts_;
  bool slowed_;
  Progress progress_;
};

}  // namespace moesim
