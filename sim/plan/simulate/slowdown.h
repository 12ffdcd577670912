// SPDX-License-Identifier: Apache-2.0
// Kernels and exchanges of one GPU that slow each other (GpuModel::overlap), as they begin and end.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"
#include "sim/plan/simulate/slowed_work.h"
#include "sim/plan/simulate/taken_sms.h"

namespace moesim {

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
  /// Plan and events must outlive it; `ended` is called for kernels and exchanges.
  Slowdown(const PricedPlan& plan, const GpuModels& gpus, Events& events, Network::Ended ended);

  /// A participant joins an exchange, or a kernel that takes it so long by itself.
  void join(const Progress::Joined& joined, Seconds duration);
  /// The network has carried an exchange, for a participant or for everyone.
  void carried(OpId exchange, std::int32_t participant);

 private:
  static constexpr Seconds never{std::numeric_limits<double>::infinity()};
  struct Gpu {
    const GpuModel* model;
    SlowedWork bound_by_compute, other_kernels, exchanges;
    int computing = 0;        // kernels that it runs
    int exchanging = 0;       // exchanges with data that it is in
    Seconds awaited = never;  // when it looks for ended work next
  };
  struct Participant {
    Seconds lost;  // SlowedWork::lost when the last one joined
    bool inside = false;
  };
  /// An exchange with data from its first joining on until it has ended for all.
  struct Active {
    std::vector<Participant> participants;
    std::size_t working = 0;  // participants for whom it has not ended
    bool all_joined = false;
    bool together = false;  // it ends for all at once
  };

  /// At once if the time has come: an event for every participant costs more than what it does.
  template <class Function>
  void at_time(Seconds time, Function function);
  void slow_kernels(Gpu& gpu);
  void slow_exchanges(Gpu& gpu);
  void start_kernel(OpId op, std::int32_t participant, Seconds duration);
  void enter(OpId exchange, std::int32_t participant);
  void all_joined(OpId exchange);
  void add_work(OpId exchange, std::int32_t participant);
  void end_work(GpuId gpu);
  /// For a participant; if it ends together, for all with the last of them.
  void end_exchange(OpId exchange, std::int32_t participant);
  void leave(OpId exchange, std::int32_t participant);
  void changed(GpuId gpu);
  /// Nothing before it begins and once it has ended for all.
  Active* active(OpId exchange) {
    Active& found = active_[exchange.index()];
    return found.participants.empty() ? nullptr : &found;
  }
  GpuId gpu_of(OpId op, std::int32_t participant) const;
  /// Whether fewer multiprocessors slow the kernel of a participant.
  bool is_bound_by_compute(OpId op, std::int32_t participant);
  Gpu& at(GpuId gpu) { return gpus_[gpu.index()]; }

  const PricedPlan& plan_;
  bool takes_sms_;
  bool slows_exchanges_;  // else they end when they have been carried
  TakenSms sms_;
  Events& events_;
  Network::Ended ended_;
  std::vector<Gpu> gpus_;
  /// Per op, for one GPU model: that of the last who asked.
  struct Bound {
    const GpuModel* model = nullptr;
    bool by_compute = false;
  };
  std::vector<Bound> bounds_;
  std::vector<Active> active_;  // per op
};

}  // namespace moesim
