// SPDX-License-Identifier: Apache-2.0
// The figures that policies are judged by, from plans and timelines, with what the time of a step
// consists of and which part binds it. Every metric is defined in docs/metrics.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/loss.h"
#include "sim/plan/plan.h"
#include "sim/plan/priced.h"
#include "sim/plan/timeline.h"
#include "sim/report/elasticity.h"
#include "sim/report/iteration_metrics.h"
#include "sim/report/path_sums.h"
#include "sim/report/serving_figures.h"
#include "sim/report/time_bounds.h"
#include "sim/report/turn_times.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Parts of the mean GPU's step. The first six add up to the step, so every moment counts once:
/// everything but compute is time with an idle compute stream, and if several exchanges run at once
/// the first of the list counts.
struct Breakdown {
  Seconds compute;    // the compute stream works
  Seconds tokens;     // token exchanges move data, or their minimum times pass
  Seconds weights;    // exchanges of expert parameters move data, migrations included
  Seconds gradients;  // exchanges of gradients move data
  Seconds waiting;    // in exchanges that the slowest participant has not joined yet
  Seconds idle;       // in no exchange: host work, or slower GPUs have not ended
  // Not among the parts:
  Seconds slowest_compute;  // of the GPU that computes longest
  Seconds overlapped;       // time in exchanges that compute hides

  void add(const Breakdown& other);
  bool operator==(const Breakdown&) const = default;
};

/// The largest of the six parts, by its name ("tokens"); the first of equals.
struct Binding {
  const char* what = "";
  Seconds time;
};
Binding binding_part(const Breakdown& breakdown);

Breakdown step_breakdown(const Plan& plan, const Timeline& timeline);

/// Token rows that exchanges moved, by how far they went; bytes are exact.
struct Traffic {
  Bytes same_gpu;                        // stayed on its GPU
  Bytes same_host;                       // to another GPU of the host
  Bytes other_host;                      // to another host
  std::vector<std::int64_t> link_class;  // [class] bytes on all links of the class

  void add(const Traffic& other, std::int64_t times = 1);
  bool operator==(const Traffic&) const = default;
};

/// The mean of what was added; 0 of nothing.
struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) { sum += value, ++count; }
  void add(const Mean& other) { sum += other.sum, count += other.count; }
  double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  bool operator==(const Mean&) const = default;
};

/// One layer, or all of them. Times are means over GPUs (but for forward and backward) and sums
/// over the steps that were added.
struct LayerMetrics {
  /// From the first start to the last end of its kernels and token exchanges, summed over
  /// microbatches.
  Seconds forward, backward;
  Seconds compute;                       // compute stream busy
  Seconds communication;                 // in a token exchange, waiting included
  Seconds parameters;                    // in an exchange of expert parameters or gradients
  Seconds gradients;                     // the part of `parameters` in exchanges of gradients
  Seconds exposed;                       // in any exchange, with the compute stream idle
  Mean load_max_over_mean;               // of one layer in one step: busiest over mean GPU
  std::vector<std::int64_t> link_bytes;  // [link]
  Traffic traffic;                       // of tokens
  Traffic parameter_traffic;             // of expert parameters and gradients, migration included
  Bytes migrated;                        // the part of it from experts that change places

  void add(const LayerMetrics& other);
  bool operator==(const LayerMetrics&) const = default;
};

/// What the token exchanges of one step must move at least, and how long that takes.
struct DedupBound {
  Seconds bound, step;
  Bytes least, moved;  // of rows that leave a host
  bool operator==(const DedupBound&) const = default;
};

struct NamedBytes {
  std::string name;
  Bytes bytes;
  bool operator==(const NamedBytes&) const = default;
};

/// The fullest GPU of a step at its fullest moment.
struct FullestGpu {
  Bytes peak, mean;  // mean: of all GPUs' peaks
  Bytes memory;      // that the GPU has
  GpuId gpu;
  std::string when = {};               // "in turn 3 of ..."
  std::vector<NamedBytes> parts = {};  // that add up to the peak
  Bytes on_host = {};  // the most that it has left in the memory of its host, at any moment
  bool fits() const { return peak <= memory; }
  bool operator==(const FullestGpu&) const = default;
};

/// What only training iterations have: means over them.
struct IterationFigures {
  IterationTimes times;
  int count = 0;                               // of iterations
  double flop_per_token = 0;                   // model flop, forward and backward; 0: unknown
  double routed_flop = 0;                      // of these, of all choices of experts
  double peak_flops = 0;                       // of the mean GPU, per second; 0: unknown
  double load_max_over_mean = 0;               // see expert_load_max_over_mean
  std::int64_t ops = 0;                        // of a plan
  int simulated_gpus = 0;                      // that stand for all; 0: all of them were
  int simulated_microbatches = 0;              // whose steady state continues; 0: all were
  Seconds continued_error, continued_drift;    // Continued::error and drift, the most
  FullestGpu fullest = {};                     // of all iterations
  std::vector<TurnTimes> stage_turns = {};     // if there is a pipeline: of the first iteration
  std::optional<ServingFigures> serving = {};  // of a pass of serving in place of an iteration

  void add(const IterationTimes& other, double load);
  bool operator==(const IterationFigures&) const = default;
};

/// What a case came to, over all of its steps. For MoE layers by themselves `layers`, `total`,
/// `breakdown` and memory are filled; of training iterations `iteration`, and `layers`
/// if they are asked for.
struct RunMetrics {
  std::vector<Seconds> steps;                 // makespan of each step
  std::int64_t tokens = 0;                    // of a step, all ranks together
  std::optional<IterationFigures> iteration;  // of whole iterations
  std::map<int, LayerMetrics> layers;         // by model layer number
  LayerMetrics total;                         // over all layers
  Loss loss = {};                             // what it computes less exactly than is stated
  Breakdown breakdown;                        // sum over steps
  PathSums path;                              // critical paths, sum over steps
  std::optional<TimeBounds> bounds;           // if they are asked for: sum over steps
  std::optional<Seconds> least;               // if it is asked for: least_time, sum over steps
  std::optional<DedupBound> dedup;            // of the first step, if exchanges share links
  std::vector<Elasticity> elasticities;       // of the first step, if they are asked for
  Seconds planning;                           // of the host, sum over layers and steps
  Bytes peak_memory;                          // of the fullest GPU in any step
  Bytes model_memory;                         // the same with all MoE layers of the model
  Bytes gpu_memory;                           // what the smallest GPU has
  int replans = 0;                            // steps, warm-up included, with new slots from loads
  std::vector<std::string> notes;             // sentences whose subject is the policy

  Seconds mean_step() const;
  Seconds time_of_steps() const;         // sum
  const IterationTimes& times() const {  // of whole iterations
    return iteration.value().times;
  }
  bool operator==(const RunMetrics&) const = default;
};

/// The busiest link of some exchanges.
struct PeakLink {
  const Link& link;
  Bytes bytes;
  double utilization;  // bytes / bandwidth / time
};

/// The link with the largest bytes / bandwidth, lowest id on ties; none when no link carried any.
/// `time` is that of the exchanges with all that ran at the same time.
std::optional<PeakLink> peak_link(const std::vector<std::int64_t>& link_bytes, Seconds time,
                                  const Topology& topology);

/// Adds one step. Throws std::logic_error when bytes are lost or appear on a tier that no pair of
/// GPUs needs: a result with wrong bytes must not be printed.
void add_step(RunMetrics& run, const PricedPlan& plan, const Timeline& timeline);

}  // namespace moesim
