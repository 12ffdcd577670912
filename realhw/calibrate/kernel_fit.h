// SPDX-License-Identifier: Apache-2.0
// Fits the tables of a GPU model to measured kernels, and the factors of contention to kernels
// measured during exchanges.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "realhw/calibrate/micro_plan.h"
#include "realhw/calibrate/times_file.h"
#include "sim/linkfit/robust.h"
#include "sim/model/gpu_model.h"
#include "sim/topology/topology.h"

namespace moesim {

/// A GPU model of a topology as it was measured.
struct GpuFit {
  GpuModel model;  // tables, overlap, and a roofline from the best rates measured
  int kept = 0, rejected = 0;
  double spread = 0;  // median 95 % half-width of the points, as a part
  /// GEMMs against the table without their own point: |error|; if there are neighbours.
  double left_out_typical = 0, left_out_worst = 0;
};

/// How many times as long kernels and exchanges take at the same time:
///
///   1 / (1 - (T - b) / o), at least 1
///
/// with T the time with the other, b the time by itself, o the part of T in which the other was
/// there. Medians over runs (and GPUs); 1 if o is less than a third of T, too little to tell.
struct OverlapFit {
  Overlap factors;
  Robust compute, communication;
};
OverlapFit fit_overlap(const MicroPlan& plan, const Times& times);

/// By name of the topology's GPU models: medians over runs and GPUs of a model of every op name and
/// size. `stated` holds the models that the topology names, for their memory.
std::map<std::string, GpuFit> fit_kernels(const Topology& topology,
                                          const std::vector<const MicroPlan*>& plans,
                                          const std::map<std::string, GpuModel>& stated,
                                          const Overlap& overlap, const Times& times);

}  // namespace moesim
