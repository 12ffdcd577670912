// SPDX-License-Identifier: Apache-2.0
// The columns of training iterations.
#include <fmt/format.h>

#include <iterator>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/report/case_columns.h"
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

}  // namespace moesim
