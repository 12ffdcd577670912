// SPDX-License-Identifier: Apache-2.0
// What users accept of a deployment, as text: "ttft p95 < 2 s, tpot p95 < 50 ms".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/serving/deployment/serving_metrics.h"

namespace moesim {

struct SlaBound {
  enum class Metric { ttft, tpot, gap, latency };
  enum class Figure { mean, p50, p90, p95, p99 };
  Metric metric = Metric::ttft;
  Figure figure = Figure::p95;
  Seconds most{};
  bool operator==(const SlaBound&) const = default;
};

/// Bounds by commas: METRIC FIGURE < TIME. Throws Error with what is allowed.
std::vector<SlaBound> parse_sla(const std::string& text);
/// "TTFT p95 3.2 s, not 2 s"; nothing if the run keeps to it.
std::optional<std::string> broken_by(const ServingMetrics& metrics, const SlaBound& bound);
/// The SLA of each request with these bounds, whatever their figures.
ServingSla sla_of_requests(const std::vector<SlaBound>& bounds);

}  // namespace moesim
