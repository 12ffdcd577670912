// SPDX-License-Identifier: Apache-2.0
// What a benchmark of a serving engine measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/serving/requests/request_log.h"

namespace moesim {

/// Times over requests as a benchmark states them, in seconds; absent: it states none.
struct StatedLatency {
  std::optional<double> mean, p50, p90, p95, p99;
};

struct ServedBenchmark {
  std::string file, tool;
  int line = 0;               // of the file; 0: all of it
  std::string model;          // as the benchmark names it; empty: it does not
  std::string backend = {};   // the engine that answered, likewise
  std::int64_t requests = 0;  // that were answered
  std::int64_t failed = 0;
  /// How requests came: so many per second, or so many in flight. Neither: all at once.
  std::optional<double> rate, in_flight;
  bool in_flight_is_mean = false;  // it was measured, not set
  ClientTimes client;              // of one process; none where several send
  double burstiness = 1;           // vLLM's: the shape of gamma gaps; 1: Poisson
  double input = 0, output = 0;    // tokens of a request, means
  /// [request] tokens; empty: only means are known.
  std::vector<std::int64_t> inputs, outputs;
  /// TTFT, TPOT, gaps between tokens (ITL), and from sending to the last token.
  StatedLatency ttft, tpot, gap, latency;
  std::optional<double> output_rate, request_rate;  // tokens and requests per second
  std::optional<double> duration;                   // s
  int gpus = 0;                                     // that it ran on; 0: it does not say
  std::vector<std::string> notes = {};              // what is wrong with it: "ends early ..."
};

}  // namespace moesim
