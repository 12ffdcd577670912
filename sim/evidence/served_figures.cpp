// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/served_figures.h"

#include <fmt/format.h>

#include <optional>

namespace moesim {
namespace {

struct StatisticPair {
  const char* name;
  std::optional<double> StatedLatency::*stated;
  double Percentiles::*simulated;  // null: the mean
};
constexpr StatisticPair statistics[] = {{"mean", &StatedLatency::mean, nullptr},
                                        {"p50", &StatedLatency::p50, &Percentiles::p50},
                                        {"p90", &StatedLatency::p90, &Percentiles::p90},
                                        {"p95", &StatedLatency::p95, &Percentiles::p95},
                                        {"p99", &StatedLatency::p99, &Percentiles::p99}};

/// numpy.percentile in all tools of Python (vLLM's benchmarks/serve.py, SGLang's bench_serving.py,
/// AIPerf, GenAI-Perf); TensorRT-LLM's bench/dataclasses/general.py, PercentileStats.
PercentileRule rule_of(const std::string& tool) {
  return tool == "trtllm-bench" ? PercentileRule::floor : PercentileRule::linear;
}

/// As the tool of the benchmark would find it.
double simulated_figure(const LatencyFigures& latency, const StatisticPair& statistic,
                        PercentileRule rule) {
  if (statistic.simulated == nullptr) return latency.mean;
  const bool floor = rule == PercentileRule::floor;
  return (floor ? latency.floor : latency.linear).*statistic.simulated;
}

struct LatencyPair {
  const char* name;
  StatedLatency ServedBenchmark::*stated;
  LatencyFigures ServingMetrics::*simulated;
};
constexpr LatencyPair latencies[] = {
    {"TTFT", &ServedBenchmark::ttft, &ServingMetrics::ttft},
    {"TPOT", &ServedBenchmark::tpot, &ServingMetrics::tpot},
    {"gap", &ServedBenchmark::gap, &ServingMetrics::gap},
    {"latency", &ServedBenchmark::latency, &ServingMetrics::latency}};

}  // namespace

std::vector<ServedFigure> figures_of(const ServedComparison& run) {
  std::vector<ServedFigure> figures;
  const ServingMetrics& metrics = run.simulated.metrics;
  const PercentileRule rule = rule_of(run.measured.tool);
  for (const LatencyPair& latency : latencies) {
    for (const StatisticPair& statistic : statistics) {
      const auto stated = run.measured.*latency.stated.*statistic.stated;
      const double simulated = simulated_figure(metrics.*latency.simulated, statistic, rule);
      if (!stated || *stated <= 0 || simulated <= 0) continue;
      figures.push_back({fmt::format("{} {}", latency.name, statistic.name), *stated, simulated});
    }
  }
  const auto add_rate = [&](const char* name, std::optional<double> stated, double simulated) {
    if (stated && *stated > 0) figures.push_back({name, *stated, simulated, false});
  };
  add_rate("tokens/s", run.measured.output_rate, metrics.rates.output);
  add_rate("requests/s", run.measured.request_rate, metrics.rates.requests);
  return figures;
}

}  // namespace moesim
