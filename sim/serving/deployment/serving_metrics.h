// SPDX-License-Identifier: Apache-2.0
// Figures of a serving run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/types.h"
#include "sim/serving/deployment/serving_run.h"

namespace moesim {

/// Nearest rank: the least value that at least `percent` of all values do not exceed. Infinitely
/// many equal values count one by one: `counts` is value -> how often. 0 if there is none.
double nearest_rank(const std::map<double, std::int64_t>& counts, double percent);

/// How tools find a percentile p of n sorted values: nearest_rank; numpy's default, between the
/// two around place p (n - 1) / 100 in their proportion; TensorRT-LLM's, the one at place p n / 100
/// rounded down. Places count from 0.
enum class PercentileRule { nearest_rank, linear, floor };

/// By that rule; 0 if there is no value.
double percentile(const std::map<double, std::int64_t>& counts, double percent,
                  PercentileRule rule);

struct Percentiles {
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;  // s
};

struct LatencyFigures {
  std::int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, most = 0;  // s, by nearest rank
  Percentiles linear = {}, floor = {};                            // for benchmarks that do so
};
LatencyFigures latency_figures(const std::map<double, std::int64_t>& counts);

/// What a user accepts, of each request; absent: anything.
struct ServingSla {
  std::optional<Seconds> ttft, tpot;
};

/// Of the whole run.
struct ServingRates {
  double output = 0, input = 0;  // generated and prompt tokens per second
  double output_per_gpu = 0;
  double output_per_user = 0;  // 1 / median TPOT
  double requests = 0;         // finished per second
  double goodput = 0;          // requests per second that met the SLA
  double good_share = 0;       // of counted requests
};

/// Means are over the time of the run.
struct ServingLoad {
  /// Shares of a rank's capacity, 0 without bound: of the mean rank, and of the fullest at its
  /// most.
  double kv_mean = 0, kv_most = 0;
  double waiting_mean = 0, running_mean = 0;  // requests
  std::int64_t waiting_most = 0;
  double cached_share = 0;  // of prompt tokens: in the prefix cache when first admitted
  std::int64_t preemptions = 0;
};

/// Of all instances.
struct PassTimes {
  std::int64_t passes = 0;
  double busy = 0;                               // share of the run in which they ran passes
  std::array<double, pass_parts> part_shares{};  // of busy time
  double stall_share = 0, padding_share = 0;     // of busy time; of tokens
};

/// - TTFT: from arrival to the end of the pass that gave the first token;
/// - TPOT: from there to the last token, over the later tokens; requests of one token have none;
/// - gap (ITL): between passes that gave tokens to a request;
/// - latency: from arrival to the last token.
/// Percentiles are of requests that finished, without the first `warmup` of the log; the run has
/// left out their gaps.
struct ServingMetrics {
  std::int64_t requests = 0, warmup = 0;
  LatencyFigures ttft, tpot, gap, latency;
  Seconds time{};  // of the run
  Seconds last_arrival{};
  ServingRates rates;
  ServingLoad load;
  PassTimes passes;
};

ServingMetrics serving_metrics(const ServingRun& run, const ServingSla& sla, std::int64_t warmup,
                               std::int64_t gpus);

/// KV use and queue over time for pictures: at most `most` samples, the last of equal spans.
std::vector<ServingSample> thinned(const std::vector<ServingSample>& samples, std::size_t most);

}  // namespace moesim
