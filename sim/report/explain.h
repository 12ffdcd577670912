// SPDX-License-Identifier: Apache-2.0
// Where the time of one layer goes, phase by phase. Every figure is defined in docs/explain.md.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/plan/exchange_time.h"
#include "sim/report/fused_memory.h"
#include "sim/report/lower_bound.h"

namespace moesim {

/// A backend and its name on the page.
struct NamedBackend {
  std::string name;
  SimulatedBackend* backend;
};

/// Rows and bytes by how far they go: [0] stay on the GPU, [1] inside the host, [2] to another
/// host.
struct ReachTotals {
  std::array<std::int64_t, 3> rows = {};
  std::array<Bytes, 3> bytes = {};
};

/// One link class in one phase. `links`: between GPUs of the pipeline stage. over_mean =
/// busiest_time / mean of bytes / bandwidth over them, idle ones included: 1 is balanced.
struct ClassLoad {
  int link_class = 0;
  int links = 0, used = 0;
  std::int64_t bytes = 0;  // on all links of the class
  LinkId busiest;
  Bytes busiest_bytes;
  Seconds busiest_time;  // bytes / bandwidth
  double over_mean = 0;
};

/// A phase at one fidelity. `alone`: makespan of its exchanges without anything else. `in_layer`:
/// from the last joining to the end of the exchange, or of the minimum time if that is later; the
/// largest over GPUs.
struct PhaseTime {
  std::string fidelity;
  Seconds alone, in_layer;
  Seconds wait;  // in the layer, from a GPU's own joining to the last one's, mean over GPUs
};

/// The exchanges of one name and pass, with their minimum times.
struct PhaseReport {
  std::string name;
  Pass pass;
  int communicators = 0;
  int least_gpus = 0, most_gpus = 0;  // of a communicator
  int rounds = 0;                     // exchanges one after the other; the largest over GPUs
  ReachTotals reach;
  std::vector<ClassLoad> classes;  // those with traffic, in the topology's order
  int busiest_class = -1;          // in classes, the last of equals; -1 when nothing leaves
  ExchangeTime closed_form;        // all communicators at once
  Seconds minimum;  // a GPU's time however few bytes it gets, all rounds; the largest over GPUs
  std::vector<PhaseTime> times;

  Seconds closed_form_total() const { return std::max(closed_form.total(), minimum); }
};

/// The largest part of a phase's closed form: "minimum time", "overhead", "latency" or the class of
/// the busiest link.
std::string bound_by(const PhaseReport& phase, const Topology& topology);

/// The kernels of one name and pass.
struct KernelReport {
  std::string name;
  Pass pass;
  int gpus = 0;       // that run it
  Seconds mean, max;  // per GPU; mean over all GPUs of the cluster
  GpuId slowest;
  Flops flops;  // on the slowest GPU
  Bytes bytes;
  KernelBound bound = KernelBound::launch;  // of its longest kernel of that name
};

/// The report of these ops, kernels of one name and pass.
KernelReport explain_kernel(const Plan& plan, const std::vector<OpId>& ops, const GpuModels& gpus);

/// All dispatch or all combine phases of a pass, and the least time that any dispatch needs for
/// them.
struct BoundReport {
  Pass pass;
  Stage stage;
  Bytes row;            // bytes of a token row, the least of its phases
  Bytes between_hosts;  // that the plan moves
  Seconds overhead;     // of one exchange, the least
  LowerBound least;
  std::vector<std::pair<std::string, Seconds>> achieved;  // per fidelity, by itself

  Seconds bound() const { return overhead + least.time; }
};

/// A phase or kernel in the order of the pass: an index into phases or kernels.
struct StepOfLayer {
  bool phase = false;
  std::size_t index = 0;
};

struct Explanation {
  std::vector<PhaseReport> phases;
  std::vector<KernelReport> kernels;
  std::vector<StepOfLayer> order;
  std::vector<BoundReport> bounds;
  std::vector<std::pair<std::string, Seconds>> layer;  // makespan per fidelity
  std::vector<FusedMemory> fused;                      // by the first backend, [pass]
};

/// Explains a checked plan of one layer that holds explicit rows.
Explanation explain(const PricedPlan& plan, const GpuModels& gpus,
                    const std::vector<NamedBackend>& backends);

}  // namespace moesim
