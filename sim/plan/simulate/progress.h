// SPDX-License-Identifier: Apache-2.0
// What has happened so far while the times of a plan are computed: joins, starts, ends of ops.
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

/// Whether an op is a kernel of the compute stream, not host work. Only such ops slow exchanges, or
/// are slowed by them, if a GPU states an overlap.
bool is_computing(const Op& op);

/// Follows stream order and `after` edges per participant, and the hosts that issue the ops.
/// Its user calls end() when an exchange ends, either for all its participants at once or for each
/// of them.
class Progress {
 public:
  /// How kernels end: by their own times (also if it is foretold when they compute), or by a call
  /// of end(), as exchanges do. Such a call ends only kernels that exchanges may slow
  /// (is_computing). If they end chain by chain, only the first of a chain joins and only the last
  /// one ends; next_in_chain() gives those between.
  enum class KernelEnds { timed, foretold, by_call, by_call_per_chain };
  /// Whom calls of end() may end exchanges for: for participants one by one, or only for everyone
  /// at once.
  enum class ExchangeEnds { one_by_one, together };
  static constexpr std::int32_t everyone = -1;
  /// In place of a participant: everyone of one of the collectives apart that an op is.
  static constexpr std::int32_t everyone_of(std::int32_t collective) {
    return everyone - collective;
  }
  static constexpr bool is_everyone(std::int32_t participant) { return participant < 0; }
  static constexpr std::int32_t collective_of_everyone(std::int32_t participant) {
    return everyone - participant;
  }
  /// A participant that joins an op at `at`, or everyone. `all`: when all have joined; only with
  /// the last one. Of collectives apart it is all of that one.
  struct Joined {
    OpId op;
    std::int32_t participant;
    Seconds at;
    std::optional<Seconds> all;
    std::int32_t collective = 0;
  };

  /// One model per rank. The plan must outlive it. Throws Error when the plan is for another number
  /// of GPUs or a GPU cannot run its kernels.
  Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends = KernelEnds::timed,
           ExchangeEnds exchange_ends = ExchangeEnds::one_by_one);

  /// When a GPU computes.
  struct Computing {
    GpuId gpu;
    Interval when;
  };
  /// From now on participants that join an exchange at one time, because of one end, may be
  /// reported as one: everyone. Never so if hosts take time.
  void report_together() { together_ = !host_.takes_time(); }
  /// From now on those who join an exchange are only reported when all have.
  void report_last() { last_alone_ = true; }
  /// Replaces the list by who has joined exchanges and kernels that end by a call, since the last
  /// time; by op and participant.
  void take_joined(std::vector<Joined>& joined);
  /// Replaces the list by what has been foretold since the last time; ascending of each GPU.
  void take_computing(std::vector<Computing>& computing);
  /// Ends an op for all its participants, who have joined.
  void end(OpId op, Seconds at) { end(op, everyone, at); }
  /// Ends an op for one participant that has joined it, or for everyone of a collective. Of a
  /// chain: its last op.
  void end(OpId op, std::int32_t participant, Seconds at);
  /// The kernel that follows an op at once on all its GPUs and waits for nothing else. Below 0 if
  /// there is none, or kernels do not end chain by chain.
  OpId next_in_chain(OpId op) const { return OpId(next_in_chain_[op.index()]); }
  /// Ends a kernel for a participant, and starts the next of its chain.
  void pass_on(OpId op, std::int32_t participant, Seconds end);
  /// When the next op of a chain starts, if the op before it ends at `ready`.
  Seconds start(OpId op, std::int32_t participant, Seconds ready) const {
    return start(op.index(), participant, ready);
  }
  /// The time of a kernel on a participant if nothing slows it; 0 for an exchange.
  Seconds duration(OpId op, std::int32_t participant) const {
    return durations_.of(op.index(), participant);
  }
  /// Whether fewer multiprocessors slow a kernel. Needs kernels that end by a call.
  bool is_bound_by_compute(OpId op, std::int32_t participant) const {
    return durations_.bound_by_compute(op.index(), participant);
  }
  /// Throws std::runtime_error naming the ops still waiting when any op has not ended.
  Timeline finish();

 private:
  /// Times of kernels. They are kept once for all members of an op if these agree, and once for all
  /// ops with equal times, such as those of the microbatches that replay a layer.
  class Durations {
   public:
    /// `bounds`: also finds what kernels are bound by.
    Durations(const Plan& plan, const GpuModels& gpus, bool bounds);
    Seconds of(std::size_t op, std::int32_t member) const { return times_[place(op, member)]; }
    bool bound_by_compute(std::size_t op, std::int32_t member) const {
      return by_compute_[place(op, member)];
    }
    /// Of all members at once, or one after the other; stay where they are.
    const Seconds* of_all(std::size_t op) const { return &times_[place(op, 0)]; }
    bool agree(std::size_t op) const { return ops_[op].agree; }

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
    std::vector<Seconds> times_ = {Seconds(0)};  // the first one is that of exchanges
    std::vector<bool> by_compute_ = {false};     // of each, if asked for
  };
  void find_waits();
  void find_chains();
  bool waits_as_one(std::size_t op) const;
  void make_timeline(ExchangeEnds exchange_ends);
  bool may_chain(std::size_t earlier, std::size_t op) const;
  struct Member {
    std::size_t op;
    std::int32_t member;
  };
  /// Returns who waits for nothing.
  std::vector<Member> count_waits();
  std::span<const std::int32_t> waited_for(std::size_t op) const {
    return std::span(waited_for_)
        .subspan(first_waited_for_[op], first_waited_for_[op + 1] - first_waited_for_[op]);
  }
  std::span<const std::int32_t> dependents(std::size_t op) const {
    return std::span(dependents_)
        .subspan(first_dependent_[op], first_dependent_[op + 1] - first_dependent_[op]);
  }
  /// Of an op that many smaller ones wait for, such as those of EP groups: each member's own.
  void divide_dependents();
  std::span<const std::int32_t> dependents_of(std::size_t op, std::size_t member) const {
    if (divided_.empty() || divided_[op] < 0) return dependents(op);
    const DividedDependents& own = each_[static_cast<std::size_t>(divided_[op])];
    return std::span(own.ops).subspan(own.first[member], own.first[member + 1] - own.first[member]);
  }
  void join(std::size_t op, std::int32_t member, Seconds at);
  /// The earliest start of an op whose waits have ended.
  Seconds start(std::size_t op, std::int32_t member, Seconds ready) const {
    return host_.takes_time() ? std::max(ready, host_.issued(op, member)) : ready;
  }
  void tell_host(std::size_t op, std::int32_t member, Seconds end) {
    if (host_.takes_time()) host_.ended(op, member, end);
  }
  static bool are_told(KernelEnds ends) {
    return ends == KernelEnds::by_call || ends == KernelEnds::by_call_per_chain;
  }
  /// Whether all times of a kernel follow from the start of its chain. They are rounded otherwise
  /// than one by one, so that this is only done where there are many.
  bool follows(std::size_t op) const {
    return runs_by_itself_[op] && many_times_ && !host_.takes_time();
  }
  void run_chain(std::size_t op, std::int32_t member, Seconds at);
  void run_one_by_one(std::size_t op, std::int32_t member, Seconds at);
  void keep_start(std::size_t op, std::int32_t member, Seconds at) {
    if (!timeline_.ops.keeps_starts(op)) return;
    timeline_.ops.start(op, static_cast<std::size_t>(member)) = at;
  }
  void foretell(GpuId gpu, const Interval& when);
  void record_end(std::size_t op, std::int32_t member, Seconds at);
  void record_end_of_everyone(std::size_t op, std::int32_t collective, Seconds at);
  /// An op that a member waits for has ended there.
  void arrive(std::size_t op, std::size_t member, Seconds at);
  /// An op has ended for everyone, or for everyone of a collective.
  void arrive_all(std::size_t op, std::size_t next, std::int32_t collective, Seconds at);
  /// An op that all members of an exchange wait for has ended for everyone.
  void arrive_together(std::size_t exchange, std::int32_t collective, Seconds at);
  /// Calls visit(member) for those of an op, or of one of its collectives apart.
  template <class Visit>
  void for_each_member(std::size_t op, std::int32_t collective, Visit visit) const {
    if (const Collectives* several = shapes_[op].apart) {
      const auto& places = several->members[static_cast<std::size_t>(collective)];
      for (const GpuId place : places) visit(place.index());
      return;
    }
    const std::size_t members = shapes_[op].group.size();
    for (std::size_t m = 0; m < members; ++m) visit(m);
  }
  /// Participants that have not joined.
  std::int32_t& absent(std::size_t op, std::int32_t collective = 0) {
    return absent_[static_cast<std::size_t>(first_absent_[op] + collective)];
  }
  void propagate();

  /// What is looked at of an op again and again, next to each other.
  struct Shape {
    Group group;
    const Collectives* apart;  // Op::apart
    bool exchange;
    bool computing;  // is_computing
  };
  struct DividedDependents {
    std::vector<std::size_t> first;  // [member + 1] into the next
    std::vector<std::int32_t> ops;
  };
  struct Ended {
    std::int32_t op, member;  // or everyone of a collective
    Seconds at;
  };

  const Plan& plan_;
  KernelEnds kernel_ends_;
  Durations durations_;
  HostProgram host_;
  bool together_ = false;                    // participants that join at once are reported as one
  bool many_times_ = false;                  // of members of ops
  bool last_alone_ = false;                  // others than the last one are not reported
  std::vector<bool> runs_by_itself_;         // per op, whether it ends without a call
  std::vector<std::int32_t> next_in_chain_;  // per op; below 0: the last
  std::vector<std::int32_t> last_in_chain_;  // per op, of its chain
  // Kept per op, not per member: of these ops, a GPU waits for those that it runs.
  std::vector<std::size_t> first_waited_for_;  // [op + 1] into the next
  std::vector<std::int32_t> waited_for_;       // ops
  std::vector<std::size_t> first_dependent_;   // [op + 1] into the next
  std::vector<std::int32_t> dependents_;       // ops that wait for the op
  std::vector<std::int32_t> divided_;          // per op into the next; empty, or below 0: it is not
  std::vector<DividedDependents> each_;
  std::vector<std::int64_t> first_wait_;    // per op into the next; below 0: it waits for one
  std::vector<std::int32_t> waits_;         // per member: ops that it still waits for
  std::vector<Shape> shapes_;               // per op
  std::vector<std::int32_t> first_absent_;  // per op, into the next
  std::vector<std::int32_t> absent_;        // per collective apart, see absent()
  std::vector<std::int32_t> unfinished_;    // per op, participants for whom it has not ended
  std::vector<Ended> ended_;                // their dependents do not know yet
  std::vector<Joined> joined_;
  std::vector<Computing> computing_;
  Timeline timeline_;  // the start of a waiting op: the latest end so far
};

}  // namespace moesim
