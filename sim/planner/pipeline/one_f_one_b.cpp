// SPDX-License-Identifier: Apache-2.0
// Schedules of a warm-up, a steady state and a cool-down; they differ in how long the warm-up is.
// ZB1P (ZB-H1 of arXiv 2401.10241): 1F1B whose weight gradients wait until the stage would idle.
// The paper finds its order by measured times; this fixed one has the bubble that it states.
#include <algorithm>

#include "sim/planner/pipeline/stage_orders.h"

namespace moesim {
namespace {

bool combines(PipelineKind kind) {
  return kind == PipelineKind::combined || kind == PipelineKind::combined_interleaved;
}

/// Forwards before the first backward of a stage. A merged turn's forward and backward must not
/// depend on each other, hence one more and 2 per stage below, as in interleaved 1F1B.
int warm_up(const PipelineShape& shape, int stage) {
  const int below = shape.stages - 1 - stage;
  const int passes = shape.microbatches * shape.chunks;
  if (shape.kind == PipelineKind::gpipe) return passes;
  if (shape.kind == PipelineKind::one_f_one_b) return std::min(below, passes);
  const int more = combines(shape.kind) ? 1 : 0;
  return std::min(2 * below + (shape.chunks - 1) * shape.stages + more, passes);
}

/// The k-th of a stage: P microbatches pass chunk 0, then chunk 1 ..., then the next P.
StageWork forward_of(const PipelineShape& shape, int k) {
  const int group = shape.stages * shape.chunks;
  return {.kind = WorkKind::forward,
          .microbatch = k / group * shape.stages + k % shape.stages,
          .chunk = k % group / shape.stages};
}

/// The same with the chunks from last to first; GPipe takes the microbatches from last to first.
StageWork backward_of(const PipelineShape& shape, int k) {
  StageWork work = forward_of(shape, k);
  work.kind = WorkKind::backward;
  work.chunk = shape.chunks - 1 - work.chunk;
  if (shape.kind == PipelineKind::gpipe) work.microbatch = shape.microbatches - 1 - k;
  return work;
}

}  // namespace

Timetable forward_order(const PipelineShape& shape) {
  Timetable order;
  for (int k = 0; k < shape.microbatches * shape.chunks; ++k) {
    order.push_back({.work = forward_of(shape, k), .beside = {}});
  }
  return order;
}

Timetable one_f_one_b_order(const PipelineShape& shape, int stage) {
  const int passes = shape.microbatches * shape.chunks;
  const int warm = warm_up(shape, stage);
  Timetable order;
  for (int k = 0; k < warm; ++k) order.push_back({.work = forward_of(shape, k), .beside = {}});
  for (int k = warm; k < passes; ++k) {
    order.push_back({.work = forward_of(shape, k), .beside = {}});
    if (combines(shape.kind)) {
      order.back().beside = backward_of(shape, k - warm);
    } else {
      order.push_back({.work = backward_of(shape, k - warm), .beside = {}});
    }
  }
  for (int k = passes - warm; k < passes; ++k) {
    order.push_back({.work = backward_of(shape, k), .beside = {}});
  }
  return order;
}

Timetable zb1p_order(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  Timetable order;
  const auto run = [&](WorkKind kind, int microbatch) {
    order.push_back({.work = {.kind = kind, .microbatch = microbatch, .chunk = 0}, .beside = {}});
  };
  int forwards = 0;
  int weights = 0;
  while (forwards < std::min(shape.stages - 1 - stage, m)) run(WorkKind::forward, forwards++);
  for (int microbatch = 0; microbatch < m; ++microbatch) {
    if (forwards < m) run(WorkKind::forward, forwards++);
    run(WorkKind::input_gradient, microbatch);
    const int pending = microbatch + 1 - weights;
    if (pending > stage) run(WorkKind::weight_gradient, weights++);
  }
  while (weights < m) run(WorkKind::weight_gradient, weights++);
  return order;
}

}  // namespace moesim
