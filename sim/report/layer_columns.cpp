// SPDX-License-Identifier: Apache-2.0
// The columns of MoE layers by themselves.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"
#include "sim/report/case_columns.h"

namespace moesim {
namespace {

const LayerMetrics& total(const ShownCase& c) { return c.run().total; }
const Breakdown& breakdown(const ShownCase& c) { return c.run().breakdown; }
/// Divides a sum over the steps.
Seconds per_step(const ShownCase& c, Seconds sum) { return Seconds(sum.value / c.steps()); }

Cell bytes_per_step(const ShownCase& c, Bytes sum) {
  return Bytes(sum.value / static_cast<std::int64_t>(c.steps()));
}
Cell choices_per_step(const ShownCase& c, std::int64_t sum) {
  const double choices = static_cast<double>(sum) / c.steps();
  return {fmt::format("{:.0f}", choices), choices};
}

/// Which part of the step is the largest.
Cell bound_by(const ShownCase& c) {
  const Binding most = binding_part(breakdown(c));
  if (most.time == Seconds(0)) return "-";
  return fmt::format("{} {:.0f} %", most.what,
                     100 * (per_step(c, most.time) / c.run().mean_step()));
}

Cell busiest_link(const ShownCase& c) {
  const Topology& topology = *c.of.topology;
  const auto peak = peak_link(total(c).link_bytes, c.run().time_of_steps(), topology);
  if (!peak) return "-";
  return fmt::format("{} {:.0f} %",
                     topology.classes()[static_cast<std::size_t>(peak->link.link_class)].name,
                     100 * peak->utilization);
}

/// In exchanges of parameters that are not gradients.
Seconds weights_time(const ShownCase& c) {
  return std::max(Seconds(0), per_step(c, total(c).parameters) - per_step(c, total(c).gradients));
}

/// Expert parameters and gradients that leave their GPU, all steps together.
Bytes parameter_bytes(const ShownCase& c) {
  return total(c).parameter_traffic.same_host + total(c).parameter_traffic.other_host;
}

/// A time that a case may lack.
CaseColumn optional_time(const char* name, Seconds (*time)(const ShownCase& c)) {
  return {name, [time](const ShownCase& c) { return Cell(time(c)); },
          [time](const ShownCase& c) { return time(c) != Seconds(0); }};
}

CaseColumns time_columns() {
  CaseColumns columns = deciding_columns();
  const CaseColumns more = {
      {"bound by", bound_by},
      {"compute", [](const ShownCase& c) { return Cell(per_step(c, total(c).compute)); }},
      {"exposed", [](const ShownCase& c) { return Cell(per_step(c, total(c).exposed)); }},
      {"slowest",
       [](const ShownCase& c) { return Cell(per_step(c, breakdown(c).slowest_compute)); }},
      {"waiting", [](const ShownCase& c) { return Cell(per_step(c, breakdown(c).waiting)); }},
      {"overlapped", [](const ShownCase& c) { return Cell(per_step(c, breakdown(c).overlapped)); }},
      optional_time("grads", [](const ShownCase& c) { return per_step(c, total(c).gradients); }),
      optional_time("params", weights_time),
      optional_time("planning", [](const ShownCase& c) { return per_step(c, c.run().planning); })};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

CaseColumns volume_columns() {
  return {{"load max/mean",
           [](const ShownCase& c) {
             const double load = total(c).load_max_over_mean.value();
             return Cell(fmt::format("{:.2f}", load), load);
           }},
          {"off-host bytes",
           [](const ShownCase& c) { return bytes_per_step(c, total(c).traffic.other_host); }},
          {"busiest link", busiest_link},
          {"param bytes", [](const ShownCase& c) { return bytes_per_step(c, parameter_bytes(c)); },
           [](const ShownCase& c) { return parameter_bytes(c).value > 0; }},
          {"migrated", [](const ShownCase& c) { return bytes_per_step(c, total(c).migrated); },
           [](const ShownCase& c) { return total(c).migrated.value > 0; }},
          {"dropped choices",
           [](const ShownCase& c) { return choices_per_step(c, c.run().loss.dropped); },
           [](const ShownCase& c) { return c.run().loss.dropped > 0; }},
          {"replaced choices",
           [](const ShownCase& c) { return choices_per_step(c, c.run().loss.replaced); },
           [](const ShownCase& c) { return c.run().loss.replaced > 0; }},
          {"memory", [](const ShownCase& c) { return Cell(c.run().peak_memory); }},
          {"all layers",
           [](const ShownCase& c) {
             const bool overfull = c.run().model_memory > c.run().gpu_memory;
             Cell cell(c.run().model_memory);
             if (overfull) cell.text += "!";
             return cell;
           },
           [](const ShownCase& c) { return c.run().model_memory != c.run().peak_memory; }}};
}

}  // namespace

std::vector<ColumnBlock> layer_blocks() { return {{"", time_columns()}, {"", volume_columns()}}; }

}  // namespace moesim
