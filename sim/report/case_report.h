// SPDX-License-Identifier: Apache-2.0
// One case of a comparison: what tables are made of, and its form in `--json`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/report/case_intervals.h"
#include "sim/report/metrics.h"
#include "sim/report/migration_twin.h"
#include "sim/report/pictures.h"
#include "sim/topology/gpu_costs.h"

namespace moesim {

/// The names of a case, as they stand in its row.
struct CaseName {
  std::string topology;
  std::string policy;
  std::string fidelity;
};

struct CaseResult {
  CaseName name;
  const Topology* topology = nullptr;  // must outlive it
  RunMetrics metrics;                  // of a case that was run
  std::string unsuitable;    // why not: a cluster, model or memory that cannot host the policy
  bool interrupted = false;  // it was not run, as the comparison ended before
  std::vector<Pictures> pictures = {};  // none or one
  std::int64_t tokens = 0;              // of a step, all ranks together
  GpuCosts costs = {};
  MigrationTwin twin = {};
  std::optional<CaseIntervals> intervals = {};  // where they are asked for

  bool ran() const { return unsuitable.empty(); }
};

/// A case as a JSON object (schema: docs/metrics.md): times in seconds per step, exact bytes summed
/// over the steps; of one that was not run its names and why.
nlohmann::ordered_json case_json(const CaseResult& c);

/// "POLICY on TOPOLOGY was not run: why".
std::string reason_not_run(const CaseResult& c);

/// Adds `intervals` to the object of a case; `time` names its time, as "step_s".
void add_intervals(nlohmann::ordered_json& object, const char* time,
                   const CaseIntervals& intervals);

}  // namespace moesim
