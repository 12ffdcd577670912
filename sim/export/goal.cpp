// SPDX-License-Identifier: Apache-2.0
#include "sim/export/goal.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

namespace moesim {
namespace {

/// What one rank does, line by line.
class RankSchedule {
 public:
  explicit RankSchedule(const Plan& plan) : done_(plan.ops.size(), -1) { before_.fill(-1); }

  void kernel(OpId id, const Op& op, Seconds time) {
    const auto nanoseconds = static_cast<std::int64_t>(std::llround(time.value * 1e9));
    done_[id.index()] = begin(op, fmt::format("calc {}", nanoseconds));
    before_[index(op.stream)] = done_[id.index()];
  }
  /// One message of an exchange, to or from a peer.
  void message(OpId id, const Op& op, bool sends, GpuId peer, Bytes bytes) {
    parts_.push_back(
        begin(op, fmt::format("{} {}b {} {} tag {}", sends ? "send" : "recv", bytes.value,
                              sends ? "to" : "from", peer.value, id.value)));
  }
  /// The end of an exchange, after all of its messages.
  void join(OpId id, const Op& op) {
    const int label = parts_.empty() ? begin(op, "calc 0") : add("calc 0");
    for (const int part : parts_) require(label, part);
    parts_.clear();
    done_[id.index()] = label;
    before_[index(op.stream)] = label;
  }

  std::string text(GpuId rank) const {
    return fmt::format("rank {} {{\n{}}}\n", rank.value, lines_);
  }

 private:
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
  int add(const std::string& what) {
    lines_ += fmt::format("l{}: {}\n", ++labels_, what);
    return labels_;
  }
  void require(int label, int other) { lines_ += fmt::format("l{} requires l{}\n", label, other); }
  /// A line that waits for the stream and for what the op comes after.
  int begin(const Op& op, const std::string& what) {
    const int label = add(what);
    if (before_[index(op.stream)] >= 0) require(label, before_[index(op.stream)]);
    for (const OpId other : op.after) {
      if (done_[other.index()] >= 0) require(label, done_[other.index()]);
    }
    return label;
  }

  std::string lines_;
  int labels_ = 0;
  std::vector<int> done_;                 // [op] the label of its end on this rank, or -1
  std::array<int, stream_count> before_;  // [stream] the label of its last end, or -1
  std::vector<int> parts_;                // messages of the exchange that is being written
};

}  // namespace

std::string to_goal(const Plan& plan, const GpuModels& gpus) {
  std::vector<RankSchedule> ranks(static_cast<std::size_t>(plan.gpus), RankSchedule(plan));
  for (const OpId id : topological_order(plan)) {
    const Op& op = plan[id];
    if (const Kernels* kernels = op.kernels()) {
      for (std::size_t member = 0; member < op.group.size(); ++member) {
        const GpuId gpu = op.group[member];
        const Seconds time = gpus[gpu.index()]->time(kernels->of(member), op.key.type());
        ranks[gpu.index()].kernel(id, op, time);
      }
      continue;
    }
    // Sends first: LogGOPSim keeps a rank busy while it receives.
    for (const bool sends : {true, false}) {
      op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
        if (from == to || bytes.value == 0) return;
        const GpuId here = sends ? from : to, peer = sends ? to : from;
        ranks[here.index()].message(id, op, sends, peer, bytes);
      });
    }
    for (const GpuId gpu : op.group) ranks[gpu.index()].join(id, op);
  }
  std::string out = fmt::format("num_ranks {}\n", plan.gpus);
  for (int rank = 0; rank < plan.gpus; ++rank) {
    out += ranks[static_cast<std::size_t>(rank)].text(GpuId(rank));
  }
  return out;
}

}  // namespace moesim
