// SPDX-License-Identifier: Apache-2.0
// Runs of engines as tables, header lines and documents.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/run/engine_cases.h"

namespace moesim {

/// Latencies and rates, then memory and queue, then where the time of passes goes.
Printout engine_table(const Scenario& scenario, const std::vector<EngineCase>& cases);
/// What a run assumes: inputs, engine, what is not modelled.
std::string engine_assumptions(const Scenario& scenario, const Inputs& inputs,
                               const std::string& version);
/// The lines above the table: the same, requests and SLA.
std::string engine_header(const Scenario& scenario, const Inputs& inputs,
                          const std::string& version);
/// Parallel sizes, steps and warm-up, without which the same inputs may give other figures.
void add_pass_keys(nlohmann::ordered_json& document, const Scenario& scenario);
/// The figures of a case, its samples with them; "not_run" in place of figures.
nlohmann::ordered_json engine_case_json(const EngineCase& c);
/// The document of `--json`, with `step: engine`.
std::string engine_json(const Scenario& scenario, const Inputs& inputs,
                        const std::vector<EngineCase>& cases, const std::string& version);

}  // namespace moesim
