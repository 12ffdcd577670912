// SPDX-License-Identifier: Apache-2.0
// Schedules of stages that hold the first and the last chunk of their place in a V. Weight
// gradients are apart.
#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "sim/planner/pipeline/stage_orders.h"

namespace moesim {
namespace {

using enum WorkKind;

/// ZB-V (arXiv 2401.10241, section 6), in the order of PyTorch's ScheduleZBVZeroBubble
/// (torch/distributed/pipelining/schedules.py).
class ZbvStage {
 public:
  ZbvStage(const PipelineShape& shape, int stage)
      : stages_(shape.stages), stage_(stage), microbatches_(shape.microbatches) {}

  Timetable order() && {
    const int below = stages_ - stage_;
    for (int i = 0; i < 2 * below - 1; ++i) run(forward, 0);
    for (int i = 0; i < stage_; ++i) run(forward, 1), run(forward, 0);
    for (int i = 0; i < below; ++i) run(forward, 1), backward(1);
    // The order is that of 2 P - 1 microbatches, of which fewer are left out where they come.
    const int whole = std::max(2 * stages_ - 1, microbatches_);
    while (done(forward, 1) < done(forward, 0) || done(forward, 0) < whole) {
      if (done(forward, 0) < whole) run(forward, 0);
      backward(0);
      run(forward, 1);
      backward(1);
    }
    for (int i = 0; i < stage_; ++i) run(input_gradient, 0), run(input_gradient, 1);
    for (int i = 0; i < below; ++i) backward(0);
    for (const int chunk : {1, 0}) {
      while (done(weight_gradient, chunk) < done(input_gradient, chunk)) {
        run(weight_gradient, chunk);
      }
    }
    return std::move(order_);
  }

 private:
  int& done(WorkKind kind, int chunk) { return done_[{kind, chunk}]; }
  void run(WorkKind kind, int chunk) {
    const int microbatch = done(kind, chunk)++;
    if (microbatch < microbatches_) order_.push_back({{kind, microbatch, chunk}, {}});
  }
  void backward(int chunk) { run(input_gradient, chunk), run(weight_gradient, chunk); }

  int stages_, stage_, microbatches_;
  std::map<std::pair<WorkKind, int>, int> done_;
  Timetable order_;
};

/// When the passes of the first microbatch run, if each takes one unit of time. Every other one
/// comes 6 units, its passes on a stage, after the one before (arXiv 2405.15362, section 3).
struct BuildingBlock {
  std::array<int, 4> hop;   // from stage to stage: forward down and up, backward down and up
  std::array<int, 3> turn;  // waits where the V turns, so that no two passes of a stage collide
};

/// The paper gives the memory of V-Half and V-Min; these waits are the least with that memory.
BuildingBlock block_of(const PipelineShape& shape) {
  if (shape.kind == PipelineKind::v_min) {
    const int wait = shape.stages % 3 == 0 ? 2 : 0;
    return {{1, 1, 1, 1}, {wait, 0, wait}};
  }
  if (shape.stages % 2 == 0) return {{2, 1, 2, 1}, {3, 0, 4}};
  return {{2, 1, 2, 1}, {1, 0, 0}};
}

/// Passes of the first microbatch on a stage, by their starts.
std::map<int, StageWork> first_passes(const PipelineShape& shape, int stage) {
  const BuildingBlock block = block_of(shape);
  const int last = shape.stages - 1, below = last - stage;
  const int turns_at_last = block.hop[0] * last + 1 + block.turn[0];
  const int turns_at_first = turns_at_last + block.hop[1] * last + 1 + block.turn[1];
  const int turns_again = turns_at_first + block.hop[2] * last + 1 + block.turn[2];
  return {{block.hop[0] * stage, {forward, 0, 0}},
          {turns_at_last + block.hop[1] * below, {forward, 0, 1}},
          {turns_at_first + block.hop[2] * stage, {input_gradient, 0, 1}},
          {turns_again + block.hop[3] * below, {input_gradient, 0, 0}}};
}

}  // namespace

Timetable zbv_order(const PipelineShape& shape, int stage) {
  return ZbvStage(shape, stage).order();
}

Timetable building_block_order(const PipelineShape& shape, int stage) {
  constexpr int interval = 6;
  std::map<int, StageWork> passes;
  for (const auto& [start, work] : first_passes(shape, stage)) {
    for (int m = 0; m < shape.microbatches; ++m) {
      passes[start + interval * m] = {work.kind, m, work.chunk};
    }
  }
  Timetable order;
  std::queue<StageWork> weights;  // each runs in the next unit that no other pass takes
  const auto run_weights = [&] {
    order.push_back({weights.front(), {}});
    weights.pop();
  };
  int now = 0;
  for (const auto& [start, work] : passes) {
    for (; now < start && !weights.empty(); ++now) run_weights();
    order.push_back({work, {}});
    if (work.kind == input_gradient) weights.push({weight_gradient, work.microbatch, work.chunk});
    now = start + 1;
  }
  while (!weights.empty()) run_weights();
  return order;
}

}  // namespace moesim
