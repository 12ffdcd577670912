// SPDX-License-Identifier: Apache-2.0
// Benchmarks of a serving engine next to the simulated engine on the same requests.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/print/table.h"
#include "sim/run/comparison_options.h"
#include "sim/run/engine_outcome.h"
#include "sim/serving/measured/served_benchmark.h"

namespace moesim {

struct ServedComparison {
  ServedBenchmark measured;
  std::string load;  // "64 in flight"
  EngineOutcome simulated;
};

struct ServingValidation {
  std::string scenario, assumptions;
  std::vector<ServedComparison> runs;
  std::vector<std::string> notes;  // what a benchmark leaves open
};

/// Of a benchmark: how its requests come to the simulated engine.
struct BenchmarkLoad {
  bool in_flight = false;  // else at a rate
  double of = 0;           // requests in flight, or per second
  std::string note;        // what the benchmark leaves open; empty: nothing
};
BenchmarkLoad load_of(const ServedBenchmark& benchmark);

/// Runs the engine of a scenario of one case on as many and as long requests as each benchmark had.
/// Where a benchmark has the lengths of each request, these; else all have its means. Throws Error
/// for a scenario that serves nothing or has several cases, and Interrupted.
ServingValidation validate_serving(const std::string& scenario, const std::vector<Override>& flags,
                                   const std::vector<ServedBenchmark>& benchmarks,
                                   const std::string& version, const ComparisonOptions& options);

Printout serving_validation_text(const ServingValidation& validation);
/// "moesim-serving-validation" 1, times in seconds.
std::string serving_validation_json(const ServingValidation& validation,
                                    const std::string& version);

}  // namespace moesim
