// SPDX-License-Identifier: Apache-2.0
// Runs the rows of serving engines.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/engine_table.h"

namespace moesim {

struct EnginePrediction {
  double ttft = 0, tpot = 0;  // mean over requests (s)
  double waiting = 0;         // requests that wait for a pass, mean over the run
  double prompt_share = 0;    // of the time of passes, those with prompts
  std::string why;            // there is none; else empty
  bool there() const { return why.empty(); }
};

/// Of each row. A benchmark sends ten times as many requests as are in flight, all at once at first
/// and each other one when one ends; of many in flight fewer rounds are run, and the first one, in
/// which all wait for each other's prompts, counts as a tenth. Rows of one model, machine, backend
/// and precision share the prices of passes.
std::vector<EnginePrediction> predict_engines(const std::vector<EngineRow>& rows,
                                              const EngineTable& table, int workers);

}  // namespace moesim
