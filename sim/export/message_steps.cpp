// SPDX-License-Identifier: Apache-2.0
#include "sim/export/message_steps.h"

#include <array>
#include <vector>

namespace moesim {
namespace {

/// What one rank has done so far, and how its next step waits for that.
class RankProgress {
 public:
  explicit RankProgress(std::size_t ops) : done_(ops, none) { before_.fill(none); }

  /// What the first steps of an op wait for: its stream, and the ops that it comes after.
  std::span<const int> waits(const Op& op) {
    waits_.clear();
    if (before(op) != none) waits_.push_back(before(op));
    for (const OpId other : op.after) {
      if (done_[other.index()] != none) waits_.push_back(done_[other.index()]);
    }
    return waits_;
  }
  /// The messages of the exchange under way, else what waits() says.
  std::span<const int> waits_of_join(const Op& op) {
    return messages_.empty() ? waits(op) : messages_;
  }
  void message() { messages_.push_back(steps_++); }
  void end(OpId id, const Op& op) {
    messages_.clear();
    done_[id.index()] = before(op) = steps_++;
  }

 private:
  static constexpr int none = -1;
  int& before(const Op& op) { return before_[static_cast<std::size_t>(op.stream)]; }

  int steps_ = 0;
  std::vector<int> done_;                 // [op] its last step
  std::array<int, stream_count> before_;  // [stream] its last step
  std::vector<int> messages_;
  std::vector<int> waits_;
};

}  // namespace

void visit_message_steps(const Plan& plan, const GpuModels& gpus,
                         const std::function<void(GpuId, const MessageStep&)>& visit) {
  using Kind = MessageStep::Kind;
  std::vector<RankProgress> ranks(static_cast<std::size_t>(plan.gpus),
                                  RankProgress(plan.ops.size()));
  for (const OpId id : topological_order(plan)) {
    const Op& op = plan[id];
    if (const Kernels* kernels = op.kernels()) {
      for (std::size_t member = 0; member < op.group.size(); ++member) {
        const GpuId gpu = op.group[member];
        const Seconds time = gpus[gpu.index()]->time(kernels->of(member), op.key.type());
        RankProgress& rank = ranks[gpu.index()];
        visit(gpu, {Kind::compute, id, gpu, {}, time, rank.waits(op)});
        rank.end(id, op);
      }
      continue;
    }
    // Sends first: LogGOPSim keeps a rank busy while it receives.
    for (const Kind kind : {Kind::send, Kind::receive}) {
      op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
        if (from == to || bytes.value == 0) return;
        const GpuId here = kind == Kind::send ? from : to, peer = kind == Kind::send ? to : from;
        RankProgress& rank = ranks[here.index()];
        visit(here, {kind, id, peer, bytes, {}, rank.waits(op)});
        rank.message();
      });
    }
    for (const GpuId gpu : op.group) {
      RankProgress& rank = ranks[gpu.index()];
      visit(gpu, {Kind::join, id, gpu, {}, {}, rank.waits_of_join(op)});
      rank.end(id, op);
    }
  }
}

Bytes copied_with_hosts(const Plan& plan) {
  Bytes sum;
  for (const Op& op : plan.ops) {
    if (op.exchange() != nullptr && op.exchange()->with_hosts)
      sum += op.exchange()->traffic.total();
  }
  return sum;
}

}  // namespace moesim
