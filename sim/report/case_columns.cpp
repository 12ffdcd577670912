// SPDX-License-Identifier: Apache-2.0
// The columns of training iterations, of passes of a serving engine and of MoE layers by
// themselves.
#include "sim/report/case_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/report/path_report.h"

namespace moesim {
namespace {

Cell share(double part) { return percent_cell(part, 1); }

/// What decides comes first: these are what 80 columns show.
CaseColumns rate_columns() {
  CaseColumns columns = deciding_columns();
  const CaseColumns more = {
      {"MFU", [](const ShownCase& s) { return share(s.of.mfu()); },
       [](const ShownCase& s) { return s.of.mfu() > 0; }},
      {"peak memory",
       [](const ShownCase& s) {
         const FullestGpu& gpu = s.iteration().fullest;
         Cell cell(gpu.peak);
         if (!gpu.fits()) cell.text += "!";
         return cell;
       },
       [](const ShownCase& s) { return s.iteration().fullest.peak.value > 0; }},
      {"critical path", [](const ShownCase& s) { return Cell(path_text(s.run().path)); }},
      {"over balanced",
       [](const ShownCase& s) {
         const auto& over = s.against.over_balanced;
         return over ? Cell(signed_percent(*over), *over) : Cell("-");
       },
       [](const ShownCase& s) { return s.against.over_balanced.has_value(); }},
      {"tokens/s/GPU", [](const ShownCase& s) { return number_cell(s.of.tokens_per_second(), 0); }},
      {"TFLOP/s/GPU", [](const ShownCase& s) { return number_cell(s.of.tflops(), 1); },
       [](const ShownCase& s) { return s.iteration().flop_per_token > 0; }},
      {"bubble",
       [](const ShownCase& s) {
         return share(s.iteration().times.of(IterationPart::bubble).value / s.time().value);
       }},
      {"waiting",
       [](const ShownCase& s) {
         return share(s.iteration().times.of(IterationPart::waiting).value / s.time().value);
       }},
      {"load max/mean",
       [](const ShownCase& s) { return number_cell(s.iteration().load_max_over_mean, 2); },
       [](const ShownCase& s) { return s.iteration().load_max_over_mean > 0; }},
  };
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

/// What policies differ in first.
constexpr IterationPart parts_by_interest[] = {
    IterationPart::experts, IterationPart::tokens,    IterationPart::waiting,
    IterationPart::bubble,  IterationPart::host,      IterationPart::gradients,
    IterationPart::weights, IterationPart::tensor,    IterationPart::context,
    IterationPart::offload, IterationPart::attention, IterationPart::moe_other,
    IterationPart::dense,   IterationPart::optimizer};
static_assert(std::size(parts_by_interest) == iteration_part_count);

CaseColumns part_columns() {
  CaseColumns columns;
  for (const IterationPart part : parts_by_interest) {
    columns.push_back({name_of(part),
                       [part](const ShownCase& s) { return Cell(s.iteration().times.of(part)); },
                       [part](const ShownCase& s) {
                         return s.iteration().times.of(part).value > 1e-6 * s.time().value;
                       },
                       fmt::format("{} time", name_of(part))});
  }
  columns.push_back({"overlapped",
                     [](const ShownCase& s) { return Cell(s.iteration().times.overlapped); },
                     [](const ShownCase& s) { return s.iteration().times.overlapped.value > 0; }});
  return columns;
}

CaseColumns memory_columns(const std::vector<std::string>& parts) {
  CaseColumns columns;
  columns.push_back({"peak", [](const ShownCase& s) { return Cell(s.iteration().fullest.peak); }});
  columns.push_back(
      {"mean GPU", [](const ShownCase& s) { return Cell(s.iteration().fullest.mean); }});
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto part = [p](const ShownCase& s) { return s.iteration().fullest.parts.at(p).bytes; };
    columns.push_back({parts[p], [part](const ShownCase& s) { return Cell(part(s)); },
                       [part](const ShownCase& s) { return part(s).value > 0; },
                       "memory " + parts[p]});
  }
  columns.push_back({"on host",
                     [](const ShownCase& s) { return Cell(s.iteration().fullest.on_host); },
                     [](const ShownCase& s) { return s.iteration().fullest.on_host.value > 0; }});
  return columns;
}

const ServingFigures& serving(const ShownCase& s) { return *s.iteration().serving; }

bool is_decode(const ShownCase& s) { return serving(s).decodes; }

Cell memory_cell(const ShownCase& s) {
  const FullestGpu& gpu = s.iteration().fullest;
  Cell cell(gpu.peak);
  if (!gpu.fits()) cell.text += "!";
  return cell;
}

Cell over_balanced_cell(const ShownCase& s) {
  const auto& over = s.against.over_balanced;
  return over ? Cell(signed_percent(*over), *over) : Cell("-");
}

/// Where a part is a share of the pass.
CaseColumn share_column(const char* name, IterationPart part) {
  return {name, [part](const ShownCase& s) {
            return percent_cell(s.iteration().times.of(part).value / s.time().value, 1);
          }};
}

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

std::vector<ColumnBlock> iteration_blocks(bool serving, const std::vector<std::string>& memory) {
  std::vector<ColumnBlock> blocks = {
      {"", serving ? serving_rate_columns() : rate_columns()},
      {serving ? "# the mean GPU's step" : "# the mean GPU's iteration", part_columns()}};
  if (!memory.empty()) {
    blocks.push_back({"# memory of the fullest GPU at its fullest moment", memory_columns(memory)});
  }
  return blocks;
}

std::vector<ColumnBlock> iteration_blocks(const std::vector<ShownCase>& cases) {
  const IterationFigures& first = cases.front().iteration();
  std::vector<std::string> memory;
  if (first.fullest.peak.value > 0) {
    for (const auto& part : first.fullest.parts) memory.push_back(part.name);
  }
  return iteration_blocks(first.serving.has_value(), memory);
}

CaseColumns serving_rate_columns() {
  CaseColumns columns = deciding_columns();
  const CaseColumns more = {
      {"TPOT", [](const ShownCase& s) { return Cell(serving(s).time_per_output_token(s.time())); },
       [](const ShownCase& s) {
         return is_decode(s) && serving(s).tokens_per_sequence != 1;  // else it is the step
       }},
      {"tokens/s/GPU", [](const ShownCase& s) { return number_cell(s.of.tokens_per_second(), 0); }},
      {"tokens/s/user",
       [](const ShownCase& s) {
         const Seconds each = serving(s).time_per_output_token(s.time());
         return each.value > 0 ? number_cell(1 / each.value, 1) : Cell("-");
       },
       is_decode},
      share_column("waiting", IterationPart::waiting),
      {"peak memory", memory_cell,
       [](const ShownCase& s) { return s.iteration().fullest.peak.value > 0; }},
      {"free KV tokens",
       [](const ShownCase& s) {
         const std::int64_t free = serving(s).free_cache_tokens;
         return Cell(fmt::format("{}", free), static_cast<double>(free));
       },
       [](const ShownCase& s) { return serving(s).cache_per_token.value > 0; }},
      {"over balanced", over_balanced_cell,
       [](const ShownCase& s) { return s.against.over_balanced.has_value(); }},
      {"critical path", [](const ShownCase& s) { return Cell(path_text(s.run().path)); }},
      {"tokens/s",
       [](const ShownCase& s) { return number_cell(s.of.tokens_per_second() * s.of.gpus(), 0); }},
      {"load max/mean",
       [](const ShownCase& s) { return number_cell(s.iteration().load_max_over_mean, 2); },
       [](const ShownCase& s) { return s.iteration().load_max_over_mean > 0; }},
  };
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

std::vector<ColumnBlock> layer_blocks() { return {{"", time_columns()}, {"", volume_columns()}}; }

}  // namespace moesim
