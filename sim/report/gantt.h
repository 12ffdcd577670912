// SPDX-License-Identifier: Apache-2.0
// What some GPUs did on which stream and when: few enough bars to be drawn.
#pragma once

#include <string>
#include <vector>

#include "sim/report/iteration_metrics.h"

namespace moesim {

/// What bars have in common that look alike.
struct GanttKind {
  std::string label;  // "fc1"; of folded bars "forward", or the part
  IterationPart part = IterationPart::bubble;
  auto operator<=>(const GanttKind&) const = default;
};

struct GanttBar {
  Seconds start;
  Seconds moving;  // of an exchange: when the last participant had joined; else the start
  Seconds end;
  int kind = 0;  // index into Gantt::kinds
  int layer = -1;
  int microbatch = 0;
  Pass pass = Pass::forward;
  bool operator==(const GanttBar&) const = default;
};

/// One stream of one GPU.
struct GanttLane {
  GpuId gpu;
  Stream stream = Stream::compute;
  std::vector<GanttBar> bars;  // by start
  bool operator==(const GanttLane&) const = default;
};

struct Gantt {
  bool folded = false;  // a bar stands for successive ops of a pass of a microbatch
  Seconds from, to;     // the time that it shows
  std::vector<GanttKind> kinds;
  std::vector<GanttLane> lanes;
  bool operator==(const Gantt&) const = default;
};

/// Every op of the step on a few GPUs. If that is more than can be drawn, two charts: the whole,
/// folded, and every op of the middle of it. Among GPUs that compute the same layers, the one that
/// computes longest is shown; if all do, also the one that computes least, and GPU 0.
std::vector<Gantt> gantts_of(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
