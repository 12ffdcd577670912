// SPDX-License-Identifier: Apache-2.0
// Kernels and exchanges of one GPU that slow each other (GpuModel::overlap), as they begin and end.
// What work of one kind loses on a GPU while work of another kind runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"
#include "sim/plan/simulate/progress.h"
#include "sim/plan/simulate/taken_sms.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Exchanges of one GPU, which take `factor` times as long in stretches of time: of each second
/// they lose 1 - 1 / factor. Time only passes: what is asked is of now.
class LostTime {
 public:
  static constexpr Seconds never{std::numeric_limits<double>::infinity()};

  /// The factor is at least 1.
  explicit LostTime(double factor) : factor_(factor), rate_(1 - 1 / factor) {}
  /// In a stretch that begins now or later, but not before others.
  void lose(const Interval& stretch) {
    ++changes_;
    if (next_ == stretches_.size()) {
      stretches_.clear();
      next_ = 0;
    }
    if (!stretches_.empty() && stretch.start <= stretches_.back().end) {
      stretches_.back().end = std::max(stretches_.back().end, stretch.end);
    } else {
      stretches_.push_back(stretch);
    }
  }
  /// Whether there is a stretch that never ends.
  bool loses() const { return next_ < stretches_.size() && stretches_.back().end == never; }
  /// It ends now.
  void stop(Seconds now) {
    ++changes_;
    stretches_.back().end = now;
  }
  /// How often it was told of stretches: as long as they stay the same, so does end_of().
  std::uint32_t changes() const { return changes_; }
  /// Since the plan began.
  Seconds until(Seconds now) {
    while (next_ < stretches_.size() && stretches_[next_].end <= now) lost_ += lost_in_next();
    const bool inside = next_ < stretches_.size() && stretches_[next_].start < now;
    return inside ? lost_ + (now - stretches_[next_].start) * rate_ : lost_;
  }
  /// When work ends if nothing changes: `due` if it loses nothing, and until(it began) was
  /// `before`.
  Seconds end_of(Seconds due, Seconds before, Seconds now) {
    Seconds delayed = due + (until(now) - before), lost = lost_;
    for (std::size_t i = next_; i < stretches_.size() && stretches_[i].start < delayed; ++i) {
      const auto& [start, end] = stretches_[i];
      const Seconds from = std::max(start, now), its_end = from + (delayed - from) * factor_;
      if (its_end <= end) return its_end;
      lost += (end - start) * rate_;
      delayed = due + (lost - before);
    }
    return delayed;
  }

 private:
  /// In the next stretch, which is over.
  Seconds lost_in_next() {
    const auto& [start, end] = stretches_[next_++];
    return (end - start) * rate_;
  }

  double factor_, rate_;  // of each second: 1 - 1 / factor_
  Seconds lost_;          // before the next stretch
  std::vector<Interval> stretches_;
  std::size_t next_ = 0;  // of them, that has not ended
  std::uint32_t changes_ = 0;
};

/// Whether the GPUs state what their streams cost each other, or exchanges take multiprocessors.
/// Throws Error naming an exchange that takes more than its GPUs have, or say.
bool slows(const Plan& plan, const GpuModels& gpus);

/// As long as a kernel of the compute stream runs while its GPU is in an exchange that carries
/// data, from the GPU's own joining on, it advances by 1 / `compute` seconds a second. An exchange,
/// from its last participant's joining on, advances by 1 / `communication` while a participant runs
/// such a kernel, and the slowest participant counts: what the network takes for it is work for
/// every participant. Where exchanges end for one GPU after the other, each counts for itself. Host
/// work neither slows nor is slowed.
///
/// Exchanges also take multiprocessors (TakenSms), as long as their GPU is in them: what is
/// bound by computing then advances by (sms - taken) / sms besides, one being left at least.
class Slowdown {
 public:
  /// Plan, events and progress must outlive it; `ended` is called for kernels and exchanges.
  Slowdown(const PricedPlan& plan, const GpuModels& gpus, Events& events, Progress& progress,
           Network::Ended ended);

  /// How kernels end: as foretold if nothing slows them. Else by chains, unless they slow exchanges
  /// and wait for hosts in between.
  static Progress::KernelEnds kernel_ends(const Plan& plan, const GpuModels& gpus);
  /// Whether it needs to know when each participant joins an exchange.
  bool asks_for_each() const { return slows_kernels_; }
  /// When kernels that end as foretold compute.
  void compute(const std::vector<Progress::Computing>& computing);
  /// A participant joins an exchange, or a kernel. `carried`: when the network will have carried it
  /// for everyone, if nobody tells that when it has.
  void join(const Progress::Joined& joined, std::optional<Seconds> carried);
  /// The network has carried an exchange, for a participant or for everyone.
  void carried(OpId exchange, std::int32_t participant);
  /// Looks at the GPUs that have changed; to be called after joining, before time passes.
  void settle();

 private:
  static constexpr Seconds never = LostTime::never;
  using Number = std::uint32_t;  // PricedPlan::number_of
  /// What ends at once of an exchange: for all its participants, or for a single one.
  struct Part {
    Number exchange;
    std::int32_t first;  // of its participants
    bool operator==(const Part&) const = default;
  };
  struct Gpu {
    const GpuModel* model;
    LostTime lost;  // by exchanges
    RunningChain kernels = {};
    KernelFactors slower = {};
    std::vector<Part> slowest = {};       // that have been carried, and that it ends last
    int exchanging = 0;                   // exchanges with data that it is in
    std::pair<bool, int> slowed_by = {};  // any exchange, and multiprocessors: what `slower` is of
    Seconds awaited = never;              // when it looks for the end of its kernels next
    std::uint32_t looks = 0;              // so far: only the last one counts
    bool changed = false;                 // is in changed_
    bool foretell = false;                // its kernels may end before that
  };
  struct Participant {
    GpuId gpu;
    std::uint32_t looks = 0;    // so far: only the last one counts
    std::uint32_t changes = 0;  // changes_of a part when the last one was planned
    Seconds lost = {};          // LostTime::until when the last one joined
    Seconds carried = {};       // when the network had done its work
    Seconds awaited = never;    // of the first of a part: when it is looked at next
    bool inside = false;
  };
  /// If kernels slow exchanges: one with data from its first joining on until it has ended for all.
  struct Active {
    OpId op;
    std::int32_t collective = 0;
    std::vector<Participant> participants;
    std::size_t working = 0;          // participants for whom it has not ended
    std::optional<Seconds> due = {};  // when it will have been carried for everyone
    bool all_joined = false;
    bool together = false;  // it ends for all at once
  };

  /// At once if the time has come: an event for every participant costs more than what it does.
  template <class Function>
  void at_time(Seconds time, Function function);
  void change(GpuId gpu);
  void settle(Gpu& gpu);
  void slow_exchanges(Gpu& gpu);
  KernelFactors factors(const Gpu& gpu, int taken_sms) const;
  void start_kernel(OpId op, std::int32_t participant);
  void count(OpId op, std::int32_t participant, int by);
  std::unique_ptr<Active> begin(OpId op, std::int32_t collective);
  void enter(Number exchange, std::int32_t participant);
  void enter(OpId exchange, Participant& who);
  void enter_together(Number exchange);
  void all_joined(Number exchange);
  void start_rest(const Part& part);
  Participant& first_of(const Part& part);
  std::span<Participant> participants(const Part& part);
  void foretell(const Part& part) { await(part, last_end(part)); }
  /// Who ends a part last, and when, if nothing changes.
  struct LastEnd {
    GpuId gpu;
    Seconds at;
  };
  LastEnd last_end(const Part& part);
  std::uint32_t changes_of(const Part& part);
  void await(const Part& part, const LastEnd& last);
  void look(GpuId gpu);
  void look(const Part& part);
  void look_again(const Part& part, std::uint32_t number);
  void end_exchange(const Part& part);
  void leave(const Part& part, OpId op, const Participant& who);
  GpuId gpu_of(OpId op, std::int32_t participant) const;
  Gpu& at(GpuId gpu) { return gpus_[gpu.index()]; }

  const PricedPlan& plan_;
  Progress& progress_;
  bool slows_kernels_;    // else they end as foretold
  bool slows_exchanges_;  // else they end when they have been carried
  TakenSms sms_;
  Events& events_;
  Network::Ended ended_;
  std::vector<Gpu> gpus_;
  std::vector<GpuId> changed_;
  std::vector<char> carries_;  // [price] whether an exchange moves bytes over links
  std::vector<std::unique_ptr<Active>> active_;  // [number] none before it begins, once it ended
  std::vector<std::unique_ptr<Active>> free_;    // that have ended, to be used again
};

}  // namespace moesim
