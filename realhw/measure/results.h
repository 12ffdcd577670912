// SPDX-License-Identifier: Apache-2.0
// What a run on hardware prints and writes, from the timelines on rank 0.
#pragma once

#include <string>
#include <vector>

#include "realhw/core/reference.h"
#include "sim/report/hardware_result.h"
#include "sim/report/metrics.h"
#include "sim/saved/saved_steps.h"

namespace moesim {

/// One step, measured.
struct MeasuredStep {
  std::vector<Timeline> repeats;  // only on rank 0
  Comparison compared;            // over all ranks

  std::vector<Seconds> makespans() const;
  const Timeline& median() const;  // the repeat of the median makespan
};

/// One policy, measured.
struct Measured {
  std::string policy;
  std::string unsuitable;           // why it cannot run here; empty: it did
  RunMetrics metrics;               // of the median repeat of every step
  std::vector<HardwareStep> steps;  // in their order
  Comparison compared;              // over all ranks and steps
};

/// The job that measured.
struct HardwareJob {
  std::string backend, description, launcher;
  std::string date;  // UTC
  int ranks = 0, hosts = 0;
  int warmup = 0, repeats = 0;
};

/// Adds one step: the timeline of its median repeat, and the makespans of all.
void add_measured(Measured& measured, const Plan& plan, const MeasuredStep& step,
                  const Topology& topology);

std::string hardware_header(const HardwareJob& job, const StepsOrigin& origin,
                            const Topology& cluster);
std::string hardware_table(const std::vector<Measured>& cases);
/// One row an op kind, one column a policy; see op_times.h.
std::string op_table(const std::vector<Measured>& cases);
std::string hardware_json(const HardwareJob& job, const StepsOrigin& origin,
                          const Topology& cluster, const std::vector<Measured>& cases);

}  // namespace moesim
