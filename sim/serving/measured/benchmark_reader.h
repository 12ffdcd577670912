// SPDX-License-Identifier: Apache-2.0
// Reads results of benchmarks of serving engines.
#pragma once

#include <string>
#include <vector>

#include "sim/serving/measured/served_benchmark.h"

namespace moesim {

/// In the order of the file:
/// - JSON of `vllm bench serve --save-result` and of `trtllm-bench --report_json`;
/// - lines of JSON of SGLang's `bench_serving --output-file`;
/// - `profile_export_aiperf.json` of AIPerf, and that of GenAI-Perf;
/// - what vLLM's and SGLang's benchmarks print, alone or within a log.
/// Throws Error, with the line, for other files, and for results without requests or lengths.
std::vector<ServedBenchmark> read_served_benchmarks(const std::string& file);
std::vector<ServedBenchmark> read_served_benchmarks(const std::string& file,
                                                    const std::string& text);

}  // namespace moesim
