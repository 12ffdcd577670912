// SPDX-License-Identifier: Apache-2.0
// How far a plan has come while its times are computed: joins, starts and ends of every op.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"
#include "sim/plan/simulate/host_program.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Whether exchanges slow an op if a GPU states an overlap, or are slowed by it: a kernel of the
/// compute stream, not host work.
bool is_computing(const Op& op);

/// Follows stream order and `after` edges per participant, and the hosts that issue the ops.
/// Whoever drives it tells when each exchange ends, for all its participants or for one after the
/// other.
class Progress {
 public:
  /// Whether kernels take their time by themselves, or end when told like exchanges: the kernels
  /// that exchanges may slow (is_computing).
  enum class KernelEnds { timed, told };
  /// A participant that joins an op at `at`. The last to be told says when all have joined.
  struct Joined {
    OpId op;
    std::int32_t participant;
    Seconds at;
    std::optional<Seconds> all;
  };

  /// One model per rank. The plan must outlive it. Throws Error when the plan is for another number
  /// of GPUs or a GPU cannot run its kernels.
  Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends = KernelEnds::timed);

  /// Who joined exchanges, and kernels that end when told, because the last call; by op and
  /// participant.
  std::vector<Joined> take_joined();
  /// Ends an op for all its participants, who have joined.
  void end(OpId op, Seconds at);
  /// Ends it for one participant that has joined.
  void end(OpId op, std::int32_t participant, Seconds at);
  /// What a kernel takes by itself on a participant; 0 of an exchange.
  Seconds duration(OpId op, std::int32_t participant) const {
    return durations_.of(op.index(), participant);
  }
  /// Throws std::runtime_error naming the ops still waiting when any op has not ended.
  Timeline finish();

 private:
  /// What kernels take, once for all members of an op if they agree, and for all ops that have
  /// them, such as those of the microbatches that replay a layer.
  class Durations {
   public:
    Durations(const Plan& plan, const GpuModels& gpus);
    Seconds of(std::size_t op, std::int32_t member) const {
      const OfOp& of_op = ops_[op];
      return times_[static_cast<std::size_t>(of_op.agree ? of_op.first : of_op.first + member)];
    }

   private:
    struct OfOp {
      std::int64_t first = 0;  // of its times
      bool agree = true;
    };
    std::vector<OfOp> ops_;
    std::vector<Seconds> times_ = {Seconds(0)};  // first that of exchanges
  };
  /// visit(earlier, its member, op, member): of the GPUs, and of their hosts.
  template <class Visit>
  void visit_waits(Visit visit) const;
  template <class Visit>
  void visit_edges(Visit visit) const;
  void find_chains();
  void make_steps();
  void join(std::int64_t step, Seconds at);
  /// The earliest start of an op whose waits have ended.
  Seconds start(std::size_t op, std::int32_t member, Seconds ready) const {
    return host_.takes_time() ? std::max(ready, host_.issued(op, member)) : ready;
  }
  void tell_host(std::size_t op, std::int32_t member, Seconds end) {
    if (host_.takes_time()) host_.ended(op, member, end);
  }
  void run_chain(std::size_t op, std::int32_t member, Seconds at);
  void propagate();

  // A step is a chain of ops on one of their GPUs: kernels of one group that follow each other, if
  // nobody else waits for any but the last, or else a single op. The steps of a chain are
  // consecutive.
  struct Joining {
    std::int32_t op = 0;     // the first of the chain
    std::int32_t waits = 0;  // ops it still waits for
    Seconds at;              // latest end so far
  };
  struct Ended {
    std::int64_t step;
    Seconds at;
  };

  const Plan& plan_;
  KernelEnds kernel_ends_;
  Durations durations_;
  HostProgram host_;
  std::vector<bool> runs_by_itself_;         // per op, whether it ends without being told
  std::vector<std::int32_t> next_in_chain_;  // per op; below 0: the last
  std::vector<std::int32_t> head_;           // per op: the first of its chain
  std::vector<std::int64_t> first_step_;     // per op that is the first
  std::vector<Joining> steps_;
  std::vector<std::int32_t> first_dependent_;  // per step, into dependents_
  std::vector<std::int32_t> dependents_;       // steps of the same GPU that wait for the step
  std::vector<std::int32_t> absent_;           // per op, participants that have not joined
  std::vector<std::int32_t> unfinished_;       // per op, participants for whom it has not ended
  std::vector<Ended> ended_;                   // not yet told to their dependents
  std::vector<Joined> joined_;
  Timeline timeline_;
};

}  // namespace moesim
