// SPDX-License-Identifier: Apache-2.0
// The JSON file of a run: what was run, from which inputs, and every result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/report/case_report.h"
#include "sim/run/comparison_options.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// The whole document (schema: docs/metrics.md); `version` is that of the program. Nothing in it
/// depends on the machine, the time or the number of workers.
std::string result_json(const Scenario& scenario, const Inputs& inputs,
                        const std::vector<CaseResult>& cases, const std::string& version);
/// With what reports draw of the cases (schema: docs/report.md).
std::string pictured_result_json(const Scenario& scenario, const Inputs& inputs,
                                 const std::vector<CaseResult>& cases, const std::string& version);

/// Says of a comparison that a signal ended early how many of its cases it has.
void add_interruption(nlohmann::ordered_json& document, const CaseCount& count);

/// An input by name and hash, as documents name it.
nlohmann::ordered_json file_json(const InputFile& file);

/// What the scenario changes in its inputs, "model.hidden=500" and the like.
nlohmann::ordered_json changes_json(const Scenario& scenario);
/// What every document begins with: format, version of the program, inputs with their hashes, and
/// changes. `of_cases` lists all policies and topologies, `of_case` names the only ones.
nlohmann::ordered_json document_of_cases(const std::string& format, const Scenario& scenario,
                                         const Inputs& inputs, const std::string& version);
nlohmann::ordered_json document_of_case(const std::string& format, const Scenario& scenario,
                                        const Inputs& inputs, const std::string& version);

/// What transports know of each cluster, a line for all that know the same; empty if all are ideal.
std::string transport_text(const Inputs& inputs);

/// The header lines above a table: version, inputs, batches.
std::string result_header(const Scenario& scenario, const Inputs& inputs,
                          const std::string& version);

}  // namespace moesim
