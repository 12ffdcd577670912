// SPDX-License-Identifier: Apache-2.0
#include "sim/report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"

namespace moesim {
namespace {

using Row = std::vector<std::string>;

/// Bytes of a step on every link class that carries any, in the topology's order.
std::string classes(const Traffic& traffic, double steps, const Topology& topology) {
  std::string text;
  for (std::size_t c = 0; c < traffic.link_class.size(); ++c) {
    if (traffic.link_class[c] == 0) continue;
    if (!text.empty()) text += "  ";
    const double bytes = static_cast<double>(traffic.link_class[c]) / steps;
    text += fmt::format("{} {}", topology.classes()[c].name,
                        to_string(Bytes(static_cast<std::int64_t>(bytes))));
  }
  return text;
}

}  // namespace

std::string align(const std::vector<Row>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i])
                       : fmt::format("{:>{}}", row[i], widths[i]);
      if (i + 1 < row.size()) line += "  ";
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string layer_table(const CaseResult& c) {
  const auto steps = static_cast<double>(c.metrics.steps.size());
  const auto per_step = [&](Seconds sum) { return to_string(Seconds(sum.value / steps)); };
  std::vector<Row> rows = {{"layer", "forward", "backward", "compute", "comm", "exposed",
                            "load max/mean", "bytes per link class and step"}};
  for (const auto& [number, layer] : c.metrics.layers) {
    rows.push_back({std::to_string(number), per_step(layer.forward), per_step(layer.backward),
                    per_step(layer.compute), per_step(layer.communication), per_step(layer.exposed),
                    fmt::format("{:.2f}", layer.load_max_over_mean.value()),
                    classes(layer.traffic, steps, *c.topology)});
  }
  return align(rows, 1);
}

}  // namespace moesim
