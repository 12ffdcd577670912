// SPDX-License-Identifier: Apache-2.0
// One case of a comparison as JSON: the form that workers hand back and `--json` writes.
#pragma once

#include <string>

#include "sim/report/metrics.h"

namespace moesim {

/// Names of a case.
struct CaseName {
  std::string topology;
  std::string policy;
  std::string fidelity;
};

/// A case as a JSON object (schema: docs/metrics.md): times in seconds per step, exact bytes summed
/// over the steps.
std::string case_json(const CaseName& name, const RunMetrics& run, const Topology& topology);

/// A case that was not run, and why: a cluster, model or memory that cannot host the policy.
std::string unsuitable_json(const CaseName& name, const std::string& reason);

/// "POLICY on TOPOLOGY was not run: why" of such a case; empty for one that was run.
std::string reason_not_run(const std::string& case_json);

}  // namespace moesim
