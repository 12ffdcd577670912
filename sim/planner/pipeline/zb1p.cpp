// SPDX-License-Identifier: Apache-2.0
// ZB1P (ZB-H1 of arXiv 2401.10241): 1F1B whose weight gradients wait until the stage would idle.
// The paper finds its order by measured times; this fixed one has the bubble that it states.
#include <algorithm>

#include "sim/planner/pipeline/stage_orders.h"

namespace moesim {

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
