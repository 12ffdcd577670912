// SPDX-License-Identifier: Apache-2.0
// How far a plan has come while its times are computed: joins, starts and ends of every op.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/overlap.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Follows lane order and `after` edges per participant. Compute ops end by themselves, since the
/// lanes of a GPU slow each other by the given delays alone; whoever drives it tells when each
/// exchange ends.
class Progress {
 public:
  /// An exchange that all its participants have joined, the last one at `start`.
  struct Ready {
    OpId op;
    Seconds start;
  };

  /// One model per rank. Ops take longer by their delays. The plan must outlive it. Throws Error
  /// when the plan is for another number of GPUs or a GPU cannot run its kernels.
  Progress(const Plan& plan, const GpuModels& gpus, Delays delays = {});

  /// The exchanges that became ready since the last call, lowest id first.
  std::vector<Ready> take_ready();
  /// Ends a ready exchange for all its participants; its delay comes on top of `at`.
  void end(OpId exchange, Seconds at);
  /// Throws std::runtime_error naming the ops still waiting when any op has not ended.
  Timeline finish();

 private:
  template <class Visit>
  void visit_edges(Visit visit) const;
  void join(std::int64_t step, Seconds at);
  void start(std::size_t op);
  void propagate();

  // A step is one op on one of its GPUs; the steps of an op are consecutive.
  struct Joining {
    std::int32_t op = 0;
    std::int32_t waits = 0;  // ops it still waits for
    Seconds at;              // latest end of those that have ended
  };
  struct Ended {
    std::size_t op;
    Seconds at;
  };

  const Plan& plan_;
  Delays delays_;                         // per op
  std::vector<std::int64_t> first_step_;  // per op, and one past the last
  std::vector<Joining> steps_;
  std::vector<std::int64_t> first_dependent_;  // per op, into dependents_
  std::vector<std::int64_t> dependents_;       // steps that wait for the op
  std::vector<Seconds> duration_;              // per op, of compute ops
  std::vector<std::int32_t> absent_;           // per op, participants that have not joined
  std::vector<bool> done_;
  std::vector<Ended> ended_;  // not yet told to their dependents
  std::vector<Ready> ready_;
  Timeline timeline_;
};

}  // namespace moesim
