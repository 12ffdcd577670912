// SPDX-License-Identifier: Apache-2.0
// Measured runs of serving engines, one per row of a table as ai-dynamo/aiconfigurator keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moesim {

/// The degrees of one instance of a pool.
struct EngineDegrees {
  int tp = 1, dp = 1;          // of attention
  int moe_tp = 1, moe_ep = 1;  // of experts
  int gpus() const { return tp * dp; }
  bool operator==(const EngineDegrees&) const = default;
};

struct EngineRow {
  std::string id, backend, version, model, system, precision;
  std::int64_t input = 0, output = 0;  // tokens of a request, nominal
  std::int64_t concurrency = 0;        // requests in flight
  EngineDegrees prompts;               // of the only pool, unless `decode`
  std::optional<EngineDegrees> decode;
  int prompt_instances = 1, decode_instances = 0;
  double ttft = 0, tpot = 0;  // mean over requests (s)
  std::string unstated;       // what the row leaves open of its deployment; empty: nothing
  int gpus() const {
    return prompts.gpus() * prompt_instances + (decode ? decode->gpus() * decode_instances : 0);
  }
};

/// Reads a CSV, plain or gzip, whose first line names its columns. Rows with `layout_suspect` are
/// left out. Throws Error with the line for a column that is absent or a number that is none.
std::vector<EngineRow> read_engine_rows(const std::string& path);

}  // namespace moesim
