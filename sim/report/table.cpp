// SPDX-License-Identifier: Apache-2.0
#include "sim/report/table.h"

#include <fmt/format.h>

#include "sim/base/units.h"

namespace moesim {
namespace {

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

Table layer_table(const CaseResult& c) {
  const auto steps = static_cast<double>(c.metrics.steps.size());
  const auto per_step = [&](Seconds sum) { return Seconds(sum.value / steps); };
  const bool is_iteration = c.metrics.iteration && !c.metrics.iteration->serving;
  Table table(
      "layers", 1,
      {"layer", "forward", "backward", "compute", "comm", "exposed", "load max/mean",
       is_iteration ? "bytes per link class and iteration" : "bytes per link class and step"});
  for (const auto& [number, layer] : c.metrics.layers) {
    const Mean& load = layer.load_max_over_mean;
    table.rows.push_back(
        {number, per_step(layer.forward), per_step(layer.backward), per_step(layer.compute),
         per_step(layer.communication), per_step(layer.exposed),
         load.count == 0 ? Cell("-") : Cell(fmt::format("{:.2f}", load.value()), load.value()),
         classes(layer.traffic, steps, *c.topology)});
  }
  return table;
}

std::string layer_note(const CaseResult& c) {
  if (!c.metrics.iteration) return "";
  return "# without dense FFNs, norms, embedding and head (above: dense), and what is of no "
         "layer\n";
}

}  // namespace moesim
