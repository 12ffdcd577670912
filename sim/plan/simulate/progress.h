// SPDX-License-Identifier: Apache-2.0
// How far a plan has come while its times are computed: joins, starts and ends of every op.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
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
  /// that exchanges may slow (is_computing). Where they end chain by chain, only the first of a
  /// chain joins, and only the last ends: next_in_chain() says what is between.
  enum class KernelEnds { timed, told, told_by_chain };
  static constexpr std::int32_t everyone = -1;
  /// A participant that joins an op at `at`, or everyone. The last to be told says when all have
  /// joined.
  struct Joined {
    OpId op;
    std::int32_t participant;
    Seconds at;
    std::optional<Seconds> all;
  };

  /// One model per rank. The plan must outlive it. Throws Error when the plan is for another number
  /// of GPUs or a GPU cannot run its kernels.
  Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends = KernelEnds::timed);

  /// From now on participants that join an exchange at one time, because of one end, may be
  /// reported as one: everyone. Never so if hosts take time.
  void report_together() { together_ = !host_.takes_time(); }
  /// Who joined exchanges, and kernels that end when told, since the last call; by op and
  /// participant. In place of what the list holds.
  void take_joined(std::vector<Joined>& joined);
  /// Ends an op for all its participants, who have joined.
  void end(OpId op, Seconds at);
  /// Ends it for one participant that has joined; of a chain its last op.
  void end(OpId op, std::int32_t participant, Seconds at);
  /// The kernel that follows at once on all GPUs of an op, and that waits for nothing else, if
  /// kernels end chain by chain; below 0: none.
  OpId next_in_chain(OpId op) const { return OpId(next_in_chain_[op.index()]); }
  /// Ends a kernel for a participant, and starts the next of its chain.
  void pass_on(OpId op, std::int32_t participant, Seconds end);
  /// When the next op of a chain starts, if the op before it ends at `ready`.
  Seconds start(OpId op, std::int32_t participant, Seconds ready) const {
    return start(op.index(), participant, ready);
  }
  /// What a kernel takes by itself on a participant; 0 of an exchange.
  Seconds duration(OpId op, std::int32_t participant) const {
    return durations_.of(op.index(), participant);
  }
  /// Whether fewer multiprocessors slow a kernel. Needs kernels that end when told.
  bool is_bound_by_compute(OpId op, std::int32_t participant) const {
    return durations_.bound_by_compute(op.index(), participant);
  }
  /// Throws std::runtime_error naming the ops still waiting when any op has not ended.
  Timeline finish();

 private:
  /// What kernels take, once for all members of an op if they agree, and for all ops that have
  /// them, such as those of the microbatches that replay a layer.
  class Durations {
   public:
    /// `bounds`: what kernels are bound by is asked for, too.
    Durations(const Plan& plan, const GpuModels& gpus, bool bounds);
    Seconds of(std::size_t op, std::int32_t member) const { return times_[place(op, member)]; }
    bool bound_by_compute(std::size_t op, std::int32_t member) const {
      return by_compute_[place(op, member)];
    }

   private:
    struct OfOp {
      std::int64_t first = 0;  // of its times
      bool agree = true;
    };
    std::size_t place(std::size_t op, std::int32_t member) const {
      const OfOp& of_op = ops_[op];
      return static_cast<std::size_t>(of_op.agree ? of_op.first : of_op.first + member);
    }

    std::vector<OfOp> ops_;
    std::vector<Seconds> times_ = {Seconds(0)};  // first that of exchanges
    std::vector<bool> by_compute_ = {false};     // of each, if asked for
  };
  void find_waits();
  void find_chains();
  bool may_chain(std::size_t earlier, std::size_t op) const;
  void count_waits();
  std::span<const std::int32_t> waited_for(std::size_t op) const {
    return std::span(waited_for_)
        .subspan(first_waited_for_[op], first_waited_for_[op + 1] - first_waited_for_[op]);
  }
  std::span<const std::int32_t> dependents(std::size_t op) const {
    return std::span(dependents_)
        .subspan(first_dependent_[op], first_dependent_[op + 1] - first_dependent_[op]);
  }
  void join(std::size_t op, std::int32_t member, Seconds at);
  /// The earliest start of an op whose waits have ended.
  Seconds start(std::size_t op, std::int32_t member, Seconds ready) const {
    return host_.takes_time() ? std::max(ready, host_.issued(op, member)) : ready;
  }
  void tell_host(std::size_t op, std::int32_t member, Seconds end) {
    if (host_.takes_time()) host_.ended(op, member, end);
  }
  void run_chain(std::size_t op, std::int32_t member, Seconds at);
  void record_end(std::size_t op, std::int32_t member, Seconds at);
  /// An op that a member waits for has ended there.
  void arrive(std::size_t op, std::size_t member, Seconds at);
  /// An op that all members of an exchange wait for has ended for everyone.
  void arrive_together(std::size_t exchange, Seconds at);
  void propagate();

  struct Ended {
    std::int32_t op, member;  // or everyone
    Seconds at;
  };

  const Plan& plan_;
  KernelEnds kernel_ends_;
  Durations durations_;
  HostProgram host_;
  bool together_ = false;                    // participants that join at once are reported as one
  std::vector<bool> runs_by_itself_;         // per op, whether it ends without being told
  std::vector<std::int32_t> next_in_chain_;  // per op; below 0: the last
  // Op by op, not member by member: a GPU waits for those of them that it runs.
  std::vector<std::size_t> first_waited_for_;  // [op + 1] into the next
  std::vector<std::int32_t> waited_for_;       // ops
  std::vector<std::size_t> first_dependent_;   // [op + 1] into the next
  std::vector<std::int32_t> dependents_;       // ops that wait for the op
  std::vector<std::int64_t> first_wait_;  // per op that is the first of its chain, into the next
  std::vector<std::int32_t> waits_;       // per member: ops that it still waits for
  std::vector<std::int32_t> absent_;      // per op, participants that have not joined
  std::vector<std::int32_t> unfinished_;  // per op, participants for whom it has not ended
  std::vector<Ended> ended_;              // not yet told to their dependents
  std::vector<Joined> joined_;
  Timeline timeline_;  // what waits starts at the latest end so far
};

}  // namespace moesim
