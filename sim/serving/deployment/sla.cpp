// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/sla.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/units.h"

namespace moesim {
namespace {

const std::vector<std::string> metric_names = {"ttft", "tpot", "gap", "latency"};
const std::vector<std::string> figure_names = {"mean", "p50", "p90", "p95", "p99"};

const LatencyFigures& figures_of(const ServingMetrics& metrics, SlaBound::Metric metric) {
  switch (metric) {
    case SlaBound::Metric::ttft:
      return metrics.ttft;
    case SlaBound::Metric::tpot:
      return metrics.tpot;
    case SlaBound::Metric::gap:
      return metrics.gap;
    case SlaBound::Metric::latency:
      break;
  }
  return metrics.latency;
}

double figure_of(const LatencyFigures& figures, SlaBound::Figure figure) {
  switch (figure) {
    case SlaBound::Figure::mean:
      return figures.mean;
    case SlaBound::Figure::p50:
      return figures.p50;
    case SlaBound::Figure::p90:
      return figures.p90;
    case SlaBound::Figure::p95:
      return figures.p95;
    case SlaBound::Figure::p99:
      break;
  }
  return figures.p99;
}

/// The number of a word among names. Throws Error for one that is none of them.
template <class Number>
Number number_of(const std::string& word, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) {
    throw Error(fmt::format("--sla: '{}' is none of {}", word, fmt::join(names, ", ")),
                "--sla \"ttft p95 < 2 s, tpot p95 < 50 ms\"");
  }
  return static_cast<Number>(found - names.begin());
}

SlaBound parse_bound(const std::string& text) {
  std::istringstream words(text);
  std::string metric, figure, than, time, unit, more;
  words >> metric >> figure >> than >> time >> unit >> more;
  SlaBound bound;
  bound.metric = number_of<SlaBound::Metric>(metric, metric_names);
  bound.figure = number_of<SlaBound::Figure>(figure, figure_names);
  NumberWithUnit given;
  const bool read =
      than == "<" && more.empty() && split_unit(unit.empty() ? time : time + " " + unit, given);
  const double scale = read ? seconds_scale(given.unit) : 0;
  if (!(scale > 0) || !(given.number > 0)) {
    throw Error(fmt::format("--sla: '{}' is not a bound", text),
                "METRIC FIGURE < TIME, several by commas: ttft p95 < 2 s, tpot p95 < 50 ms");
  }
  bound.most = Seconds(given.number * scale);
  return bound;
}

}  // namespace

std::vector<SlaBound> parse_sla(const std::string& text) {
  std::vector<SlaBound> bounds;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) bounds.push_back(parse_bound(part));
  if (bounds.empty()) throw Error("--sla is empty", "--sla \"ttft p95 < 2 s, tpot p95 < 50 ms\"");
  return bounds;
}

std::optional<std::string> broken_by(const ServingMetrics& metrics, const SlaBound& bound) {
  const double value = figure_of(figures_of(metrics, bound.metric), bound.figure);
  if (value < bound.most.value) return std::nullopt;
  std::string metric = metric_names[static_cast<std::size_t>(bound.metric)];
  if (bound.metric <= SlaBound::Metric::tpot) {
    std::ranges::transform(metric, metric.begin(),
                           [](char c) { return static_cast<char>(c - 32); });
  }
  return fmt::format("{} {} is {}, not below {}", metric,
                     figure_names[static_cast<std::size_t>(bound.figure)],
                     to_string(Seconds(value)), to_string(bound.most));
}

ServingSla sla_of_requests(const std::vector<SlaBound>& bounds) {
  ServingSla sla;
  for (const SlaBound& bound : bounds) {
    if (bound.metric == SlaBound::Metric::ttft) sla.ttft = bound.most;
    if (bound.metric == SlaBound::Metric::tpot) sla.tpot = bound.most;
  }
  return sla;
}

}  // namespace moesim
