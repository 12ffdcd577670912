// SPDX-License-Identifier: Apache-2.0
// The hosts that issue a plan: when each op has been launched on each of its GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"

namespace moesim {

/// Whether a host waits for the end of this op on its GPU before it issues the next one.
bool is_waited_for(const HostModel& host, const Op& op);

/// Every GPU has a host, which issues the GPU's ops in the order of the plan and runs ahead of it
/// without bound, but for what it waits for (waits). An op starts no earlier than it was issued. A
/// captured op is issued with the graph that it belongs to: ops of one layer, microbatch and pass
/// that the host issues next to each other. Phases of a dispatch without a kernel between them are
/// one call.
///
/// An op of k kernels that take d on the GPU, which the host issues in c after h, is held until
///   h + max(c / k, c - d (k - 1) / k),
/// so that with d on the GPU it ends as its k equal kernels do that are issued one by one.
class HostProgram {
 public:
  /// What a kernel takes on a member of its op's group.
  using Duration = std::function<Seconds(std::size_t op, std::int32_t member)>;
  /// The plan must outlive it. Throws Unsuitable if a host waits for an op inside a graph.
  HostProgram(const Plan& plan, const GpuModels& gpus, const Duration& duration);

  /// Whether any host takes time. If none does, nothing else may be asked.
  bool takes_time() const { return !first_.empty(); }
  /// When a member's host has issued an op. What it has waited for before must have been told.
  Seconds issued(std::size_t op, std::int32_t member) const {
    const auto at = static_cast<std::size_t>(first_[op] + member);
    return wait_[at] < 0 ? issued_[at]
                         : resumed_[static_cast<std::size_t>(wait_[at])] + issued_[at];
  }
  /// Whether hosts wait for an op.
  bool waits_for(std::size_t op) const { return takes_time() && first_wait_[op] >= 0; }
  /// The op has ended for a member: its host continues where it has waited for it.
  void ended(std::size_t op, std::int32_t member, Seconds at) {
    if (first_wait_[op] >= 0) resumed_[static_cast<std::size_t>(first_wait_[op] + member)] = at;
  }

  /// Calls visit(earlier, its member, op, member) for every op that is issued after its host has
  /// waited for an earlier one, once per stream; what follows on the stream waits with it.
  template <class Visit>
  void for_each_wait(Visit visit) const;

 private:
  bool waits(const Op& op) const;
  void issue_all(const GpuModels& gpus, const Duration& duration);

  const Plan& plan_;
  std::array<bool, op_kind_count> waits_for_{};  // of any host
  std::vector<std::int64_t> first_;              // per op, into the next two; empty: no host
  std::vector<Seconds> issued_;                  // [op and member] since the host last waited
  std::vector<std::int32_t> wait_;               // for which that was, below 0: none
  std::vector<std::int32_t> first_wait_;         // per op, of its members; below 0: nobody waits
  std::vector<Seconds> resumed_;                 // [wait]
};

template <class Visit>
void HostProgram::for_each_wait(Visit visit) const {
  struct Waited {
    OpId op{-1};
    std::size_t member = 0;
    std::uint32_t streams = 0;  // a bit for each whose ops follow it already
  };
  static_assert(stream_count <= 32);
  std::vector<Waited> waited(static_cast<std::size_t>(plan_.gpus));
  for (OpId id(0); id.index() < plan_.ops.size(); ++id.value) {
    const Op& op = plan_[id];
    const std::uint32_t stream = 1U << static_cast<unsigned>(op.stream);
    const bool waits = first_wait_[id.index()] >= 0;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      Waited& last = waited[op.group[m].index()];
      if (last.op.value >= 0 && (last.streams & stream) == 0) {
        visit(last.op, last.member, id, m);
        last.streams |= stream;
      }
      if (waits) last = {id, m, stream};
    }
  }
}

}  // namespace moesim
