// SPDX-License-Identifier: Apache-2.0
// Iterations side by side, and what real routing costs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/loss.h"
#include "sim/print/table.h"
#include "sim/report/case_intervals.h"
#include "sim/report/elasticity.h"
#include "sim/report/iteration_metrics.h"
#include "sim/report/migration_twin.h"
#include "sim/report/path_sums.h"
#include "sim/report/pictures.h"
#include "sim/report/time_bounds.h"
#include "sim/report/turn_times.h"
#include "sim/topology/gpu_costs.h"

namespace moesim {

struct NamedBytes {
  std::string name;
  Bytes bytes;
  bool operator==(const NamedBytes&) const = default;
};

/// The fullest GPU of an iteration at its fullest moment.
struct FullestGpu {
  Bytes peak, mean;  // mean: of all GPUs' peaks
  Bytes memory;      // that the GPU has
  GpuId gpu;
  std::string when = {};               // "in turn 3 of ..."
  std::vector<NamedBytes> parts = {};  // that add up to the peak
  bool fits() const { return peak <= memory; }
  bool operator==(const FullestGpu&) const = default;
};

/// One policy on one cluster, on recorded tokens or on balanced ones: means over its iterations.
struct IterationMetrics {
  IterationTimes times;
  std::vector<Seconds> each = {};  // time of every iteration
  int iterations = 0;
  std::int64_t tokens = 0;                    // of one iteration
  double flop_per_token = 0;                  // model flop, forward and backward; 0: unknown
  double peak_flops = 0;                      // of the mean GPU, per second; 0: unknown
  double load_max_over_mean = 0;              // see expert_load_max_over_mean
  std::int64_t ops = 0;                       // of a plan
  FullestGpu fullest = {};                    // of all iterations
  std::vector<std::string> notes = {};        // sentences whose subject is the policy
  PathSums path = {};                         // critical paths, sum over the iterations
  std::optional<TimeBounds> bounds = {};      // where they are asked for: sum over the iterations
  std::optional<Seconds> least = {};          // the same of least_time
  std::vector<Elasticity> elasticities = {};  // of the first, where they are asked for
  std::vector<TurnTimes> stage_turns = {};    // where there is a pipeline: of the first iteration
  Loss loss = {};                             // what it computes less exactly than is stated

  void add(const IterationTimes& other, double load);
  bool operator==(const IterationMetrics&) const = default;
};

struct IterationCase {
  std::string topology, policy, routing, fidelity;
  int gpus = 0;
  IterationMetrics metrics = {};
  std::string unsuitable = {};          // why it was not run, else empty
  bool interrupted = false;             // it was not run, as the comparison ended before
  std::vector<Pictures> pictures = {};  // none or one
  GpuCosts costs = {};
  MigrationTwin twin = {};
  std::optional<CaseIntervals> intervals = {};  // where they are asked for

  bool ran() const { return unsuitable.empty(); }
  double tokens_per_second() const;  // and GPU
  double tflops() const;             // model TFLOP/s of a GPU
  double mfu() const;                // of the GPU's peak
};

/// A table of blocks: times and rates; what an iteration of the mean GPU consists of; the memory of
/// the fullest GPU by part; time bounds, where they are asked for (`bounds`) and there. Lines that
/// start with # follow: what was not run, and notes. What cases are compared with: compared.h.
Printout iteration_table(const std::vector<IterationCase>& cases, bool bounds = false);

/// {"1F": seconds, ...}
nlohmann::ordered_json turns_json(const TurnTimes& turns);

/// A case in `--json`; schema: docs/metrics.md.
nlohmann::ordered_json iteration_json(const IterationCase& c);

}  // namespace moesim
