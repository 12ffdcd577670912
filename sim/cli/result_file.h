// SPDX-License-Identifier: Apache-2.0
// The JSON file of a run: what was run, from which inputs, and every result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/scenario/inputs.h"

namespace moesim {

/// The whole document (schema: docs/metrics.md). Nothing in it depends on the machine, the time or
/// the number of workers.
std::string result_json(const Scenario& scenario, const Inputs& inputs,
                        const std::vector<std::string>& cases);

/// An input by name and hash, as documents name it.
nlohmann::ordered_json file_json(const InputFile& file);

/// The header lines above a table: version, inputs, batches.
std::string result_header(const Scenario& scenario, const Inputs& inputs);

}  // namespace moesim
