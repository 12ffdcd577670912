// SPDX-License-Identifier: Apache-2.0
// Samples of Prometheus: lines of a /metrics page, or what the HTTP API answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/import/json_items.h"

namespace moesim {

struct MetricSample {
  std::string metric = "";
  std::vector<std::string> labels = {}, values = {};
  double value = 0;  // not finite if it is written so, or too large
  std::optional<double> time = {};
  int line = 0, page = 0;  // of the file; pages begin with the metric's type
};

/// What a line of a page is.
struct MetricLine {
  std::optional<MetricSample> sample = {};
  std::vector<std::string> unread = {};  // labels of a sample that cannot be read
  std::vector<std::string> type = {};    // "name", "counter" of "# TYPE name counter"
};

/// Reads a line, with or without a prefix of `docker compose logs` and the like. Text that is
/// neither a sample nor a type gives an empty one.
MetricLine metric_line(const std::string& line);

/// Uses the samples of {"data": {"result": [{"metric": {...}, "value": [time, "4"]}]}}, also with
/// "values", or of {"labels": {...}, "value": 4}. Returns false for any other value.
bool use_json_samples(const JsonElement& item, const std::function<void(MetricSample)>& use);

}  // namespace moesim
