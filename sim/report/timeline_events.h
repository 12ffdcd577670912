// SPDX-License-Identifier: Apache-2.0
// Simulated steps as trace events: a process per rank, a thread per stream, arrows from sender to
// receiver, and counters. Defined in docs/timeline.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/plan/priced.h"
#include "sim/plan/timeline.h"
#include "sim/report/trace_events.h"

namespace moesim {

/// One case of a comparison.
struct TimelineCase {
  std::string name;          // before the names of its processes, empty if it is the only one
  int first_process = 0;     // of rank 0; the cluster's comes after the last rank's
  std::vector<GpuId> ranks;  // that are shown, ascending
};

/// A value of some GPU from a moment of the step on.
struct MemoryMoment {
  Seconds from;
  std::vector<std::pair<std::string, double>> parts;  // bytes
};

/// Steps of a case, one after the other.
class TimelineEvents {
 public:
  TimelineEvents(TraceEvents& out, TimelineCase of, const Topology& topology);

  /// What a GPU holds in the step that add() adds next.
  void add_memory(GpuId gpu, const std::vector<MemoryMoment>& moments);
  void add(const PricedPlan& plan, const Timeline& timeline, const std::string& name);

 private:
  struct Moves;
  int process(GpuId gpu) const { return case_.first_process + gpu.value; }
  int cluster() const { return case_.first_process + topology_.gpu_count(); }
  Picoseconds at(Seconds time) const { return offset_ + picoseconds(time); }
  void name_rank(GpuId gpu);
  void add_op(const PricedPlan& plan, const Timeline& timeline, std::size_t op);
  void add_arrows(const Op& op, const OpIntervals& times);
  void add_fused(const PricedPlan& plan, const Timeline& timeline);
  void add_loads(const PricedPlan& plan, const Timeline& timeline);

  TraceEvents& out_;
  TimelineCase case_;
  const Topology& topology_;
  std::vector<bool> named_;             // [GPU]
  std::vector<std::uint32_t> streams_;  // [GPU] a bit per stream that has a name
  Picoseconds offset_ = 0;              // of the step
};

}  // namespace moesim
