// SPDX-License-Identifier: Apache-2.0
// DualPipe and DualPipeV (deepseek-ai/DualPipe; DeepSeek-V3, arXiv 2412.19437). A stage's near
// passes come from the end of the pipeline that is closer to it, its far passes come back from the
// other one.
#include <algorithm>
#include <queue>

#include "sim/planner/pipeline/stage_orders.h"

namespace moesim {
namespace {

enum Side { near, far };

class DualpipeStage {
 public:
  DualpipeStage(const PipelineShape& shape, int stage) {
    const bool v = shape.kind == PipelineKind::dualpipev;
    const int from_other_end = shape.stages - 1 - stage;
    half_ = v ? shape.stages : shape.stages / 2;
    from_end_ = v ? stage : std::min(stage, from_other_end);
    passes_ = v ? shape.microbatches : shape.microbatches / 2;
    near_chunk_ = v || stage < from_other_end ? 0 : 1;
    second_half_ = v ? 0 : passes_;  // the first microbatch of chunk 1
  }

  Timetable order() && {
    const auto [s1, s2, s3, s4, s5, s6, s7, s8] = dualpipe_steps(from_end_, half_, passes_);
    for (int i = 0; i < s1; ++i) forward(near);
    for (int i = 0; i < s2; ++i) forward(near), forward(far);
    for (int i = 0; i < s3; ++i) input_gradient(far), weight_gradient(), forward(far);
    for (int i = 0; i < s4; ++i) {
      // In the middle of the pipeline the first forward waits for nothing: not merging it shortens
      // the bubble.
      const bool middle = from_end_ == half_ - 1;
      if (i == 0 && middle) {
        forward(near), backward(far);
      } else {
        merged(near, far);
      }
      merged(far, near);
    }
    for (int i = 0; i < s5; ++i) backward(far), merged(far, near);
    for (int i = 0; i < s6; ++i) last_backwards(i);
    for (int i = 0; i < s7; ++i) weight_gradient(), input_gradient(near);
    for (int i = 0; i < s8; ++i) weight_gradient();
    return std::move(order_);
  }

 private:
  /// Step 6: from the middle on, weight gradients are put off; odd stages begin with the far side.
  void last_backwards(int i) {
    const int middle = (from_end_ + 1) / 2;
    const bool far_first = from_end_ % 2 == 1;
    i > middle || (i == middle && far_first) ? input_gradient(far) : backward(far);
    i >= middle ? input_gradient(near) : backward(near);
  }

  StageWork next(WorkKind kind, Side side, int (&count)[2]) {
    const int chunk = side == near ? near_chunk_ : 1 - near_chunk_;
    const int first = chunk == 0 ? 0 : second_half_;
    return {.kind = kind, .microbatch = first + count[side]++, .chunk = chunk};
  }
  void run(const StageWork& work) { order_.push_back({.work = work, .beside = {}}); }

  void forward(Side side) { run(next(WorkKind::forward, side, forwards_)); }
  void backward(Side side) { run(next(WorkKind::backward, side, backwards_)); }
  void merged(Side ahead, Side back) {
    forward(ahead);
    order_.back().beside = next(WorkKind::backward, back, backwards_);
  }
  void input_gradient(Side side) {
    StageWork work = next(WorkKind::input_gradient, side, backwards_);
    run(work);
    work.kind = WorkKind::weight_gradient;
    pending_.push(work);
  }
  void weight_gradient() {
    run(pending_.front());
    pending_.pop();
  }

  int half_ = 0, from_end_ = 0, passes_ = 0, near_chunk_ = 0, second_half_ = 0;
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
  std::queue<StageWork> pending_;  // weight gradients, in the order of both sides
  Timetable order_;
};

}  // namespace

std::array<int, 8> dualpipe_steps(int from_end, int half, int passes) {
  const int to_middle = half - 1 - from_end;
  const int main = passes - 2 * half + from_end + 1;
  return {2 * to_middle, from_end + 1, to_middle, main,
          to_middle,     from_end + 1, to_middle, from_end + 1};
}

Timetable dualpipe_order(const PipelineShape& shape, int stage) {
  return DualpipeStage(shape, stage).order();
}

}  // namespace moesim
