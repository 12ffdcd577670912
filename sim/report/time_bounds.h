// SPDX-License-Identifier: Apache-2.0
// Times that a plan cannot beat on its cluster, each with one cost taken away. Defined in
// docs/explain.md.
#pragma once

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
#include "sim/plan/timeline.h"

namespace moesim {

struct TimeBounds {
  /// Kernels of the compute stream, without waits: of the mean GPU among the GPUs that exchange
  /// tokens with each other, the largest of these means.
  Seconds balance;
  Seconds compute;  // the same of the GPU that computes longest
  /// All bytes at full bandwidth on the link that takes longest, and all exchanges of a GPU on one
  /// stream after each other: the longer of both.
  Seconds port;
  Seconds no_communication;  // exchanges take no time, but wait for their participants
  Seconds no_bubble;         // of the GPU that waits least for other pipeline stages

  void add(const TimeBounds& other);
  TimeBounds operator*(double factor) const;
  bool operator==(const TimeBounds&) const = default;
};

/// How a fidelity treats exchanges.
struct ExchangeRules {
  bool links_shared = true;  // concurrent exchanges slow each other on a link
  bool together = true;      // an exchange ends for all its participants at once
};

TimeBounds time_bounds(const PricedPlan& plan, const Timeline& timeline, const GpuModels& gpus,
                       ExchangeRules rules);

/// What no fidelity undercuts if exchanges share links and end for all their participants at once
/// (`port`): the plan with every exchange as if nothing else used the network and kernels that
/// nothing slows, and all bytes on the link that takes longest for them; the longer of both.
Seconds least_time(const PricedPlan& plan, const GpuModels& gpus);

/// The plan's timeline when nothing takes time but its kernels, which nothing slows.
Timeline without_exchanges(const Plan& plan, const GpuModels& gpus, bool together);

}  // namespace moesim
