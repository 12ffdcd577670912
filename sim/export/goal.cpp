// SPDX-License-Identifier: Apache-2.0
#include "sim/export/goal.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "sim/export/message_steps.h"

namespace moesim {
namespace {

/// Labels count from 1.
int goal_label(int step) { return step + 1; }

std::string goal_line(const MessageStep& step) {
  switch (step.kind) {
    case MessageStep::Kind::compute:
      return fmt::format("calc {}", std::llround(step.time.value * 1e9));
    case MessageStep::Kind::send:
      return fmt::format("send {}b to {} tag {}", step.bytes.value, step.peer.value, step.op.value);
    case MessageStep::Kind::receive:
      return fmt::format("recv {}b from {} tag {}", step.bytes.value, step.peer.value,
                         step.op.value);
    case MessageStep::Kind::join:
      break;
  }
  return "calc 0";
}

}  // namespace

std::string to_goal(const Plan& plan, const GpuModels& gpus) {
  struct Rank {
    std::string lines;
    int steps = 0;
  };
  std::vector<Rank> ranks(static_cast<std::size_t>(plan.gpus));
  visit_message_steps(plan, gpus, [&](GpuId gpu, const MessageStep& step) {
    Rank& rank = ranks[gpu.index()];
    const int label = goal_label(rank.steps++);
    rank.lines += fmt::format("l{}: {}\n", label, goal_line(step));
    for (const int other : step.after) {
      rank.lines += fmt::format("l{} requires l{}\n", label, goal_label(other));
    }
  });
  std::string out = fmt::format("num_ranks {}\n", plan.gpus);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    out += fmt::format("rank {} {{\n{}}}\n", rank, ranks[rank].lines);
  }
  return out;
}

}  // namespace moesim
