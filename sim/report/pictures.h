// SPDX-License-Identifier: Apache-2.0
// What reports draw of a case in addition to the figures of the tables: loads, traffic, links, who
// does what when, memory over time. Schema in JSON: docs/report.md. What some GPUs did on which
// stream and when: few enough bars to be drawn.
#pragma once

#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/priced.h"
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

/// What the fullest GPU holds, turn by turn of its pipeline stage.
struct MemoryCurve {
  GpuId gpu;
  int stage = 0;
  Bytes room;                                    // that the GPU has
  std::vector<std::string> parts;                // names
  std::vector<std::string> turns;                // "forward of microbatch 3"
  std::vector<std::vector<std::int64_t>> bytes;  // [turn][part]
  bool operator==(const MemoryCurve&) const = default;
};

/// What a matrix of bytes between GPUs is of.
enum class TrafficKind { tokens, parameters, activations, stages };
inline constexpr int traffic_kind_count = static_cast<int>(TrafficKind::stages) + 1;

/// Rows of routed experts, forward, by where they are computed.
using RowsOfGpus = std::map<GpuId, std::int64_t>;

/// Pictures of one case, all its steps together; charts of time are of the first step.
struct Pictures {
  int gpus = 0;
  int microbatches = 1;
  std::map<int, std::map<int, RowsOfGpus>> rows;  // [layer][step and microbatch]
  /// [kind][sender, receiver]: blocks of successive GPUs if they are many.
  std::array<std::map<std::pair<int, int>, std::int64_t>, traffic_kind_count> traffic;
  int gpus_of_block = 1;
  std::vector<std::int64_t> link_bytes;  // [link]
  Seconds time;                          // of all steps
  int steps = 0;
  std::vector<Gantt> gantts;
  std::vector<MemoryCurve> memory;  // none or one

  /// `by`: [GPU] whose times and rows it has, if the plan has only some GPUs (representatives.h).
  void add(const PricedPlan& plan, const Timeline& timeline, const std::vector<GpuId>& by = {});
  bool operator==(const Pictures&) const = default;
};

nlohmann::ordered_json pictures_json(const Pictures& pictures, const Topology& topology);

/// The cluster as far as it is drawn: all of a small one; of a large one its first hosts and the
/// switches that they reach. Utilizations in pictures_json are of these links.
nlohmann::ordered_json drawing_json(const Topology& topology);

}  // namespace moesim
