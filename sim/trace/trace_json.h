// SPDX-License-Identifier: Apache-2.0
// trace.json: the metadata of a trace directory.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// The format that every trace.json names.
inline constexpr const char* trace_format = "moesim-trace";

/// "training", "prefill", "decode", "mixed", "synthetic", in the order of Phase.
const std::vector<std::string>& phase_names();
const std::string& to_string(Phase phase);

/// "26 (model layers 1-26)", "3 (model layers 0, 7, 15)".
std::string layers_text(const std::vector<int>& layers);

/// Reads <directory>/trace.json. Throws Error with every mistake of the file.
TraceInfo read_trace_json(const std::string& directory);

/// The text of trace.json; `info.provenance` must be a JSON object or empty.
std::string trace_json_text(const TraceInfo& info);

}  // namespace moesim
