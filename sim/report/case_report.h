// SPDX-License-Identifier: Apache-2.0
// One case of a comparison: what tables are made of, and its form in `--json`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/metrics.h"
#include "sim/report/pictures.h"
#include "sim/topology/gpu_costs.h"

namespace moesim {

/// "megamoe (!)" if there is a reason, else the name.
inline std::string marked(const std::string& name, const std::string& why) {
  return why.empty() ? name : name + " (!)";
}

/// The note that explains the mark; its subject is the policy.
inline std::string cannot_run_note(const std::string& why) { return "cannot run so (!): " + why; }

struct MigrationTwin {
  std::string but_placement = {};  // SystemSpec::but_placement; empty: unknown
  bool fixed = false;              // its placement decides nothing from loads
  bool operator==(const MigrationTwin&) const = default;
};

/// 90 % intervals by sampling and by errors of the simulator (docs/error-bars.md).
struct CaseIntervals {
  struct Ends {
    double low = 0, high = 0;
    bool holds(double value) const { return low <= value && value <= high; }
  };
  Ends seconds, speedup;                // of a step or iteration; over its baseline
  std::vector<std::string> unmeasured;  // what it rests on and nobody measured; it widens them
  std::string told_apart;  // from its baseline: "yes", "no, 12 steps", "measure tokens"; "" of that
};

/// The names of a case, as its row has them.
struct CaseName {
  std::string topology;
  std::string policy;
  std::string fidelity;
  std::string routing = {};  // "recorded" or "balanced", of iterations; else empty

  /// "megatron", or "megatron (balanced)".
  std::string policy_text() const;
  bool operator==(const CaseName&) const = default;
};

struct CaseResult {
  CaseName name;
  const Topology* topology = nullptr;  // must outlive it
  RunMetrics metrics;                  // of a case that was run
  std::string unsuitable;    // why not: a cluster, model or memory that cannot host the policy
  bool interrupted = false;  // it was not run, as the comparison ended before
  std::vector<Pictures> pictures = {};  // none or one
  GpuCosts costs = {};
  MigrationTwin twin = {};
  std::optional<CaseIntervals> intervals = {};  // if they are asked for
  std::string hint = {};                        // what may help, if it was not run
  std::string cannot_run = {};  // why the cluster cannot run what was simulated; empty: it can
  std::vector<std::size_t> by_data_sheet = {};  // link classes of which its transport has no rates

  bool ran() const { return unsuitable.empty(); }
  /// The policy's name as tables have it: with a mark if it cannot run.
  std::string marked_policy() const { return marked(name.policy, cannot_run); }
  int gpus() const { return topology->gpu_count(); }
  double tokens_per_second() const;  // and GPU
  double tflops() const;             // model TFLOP/s of a GPU; 0: unknown
  double mfu() const;                // of the GPU's peak
};

/// Whether cases are training iterations, which a document's cases all are or none is.
bool are_iterations(const std::vector<CaseResult>& cases);
/// "step" or "iteration".
const char* noun_of(const std::vector<CaseResult>& cases);

/// A case as a JSON object (schema: docs/metrics.md): times in seconds per step, exact bytes summed
/// over the steps; of one that was not run its names and why.
nlohmann::ordered_json case_json(const CaseResult& c);

/// "POLICY on TOPOLOGY was not run: why".
std::string reason_not_run(const CaseResult& c);

/// {"1F": seconds, ...}
nlohmann::ordered_json turns_json(const TurnTimes& turns);

}  // namespace moesim
