// SPDX-License-Identifier: Apache-2.0
// The columns of passes of a serving engine.
#include <fmt/format.h>

#include "sim/base/figures.h"
#include "sim/report/case_columns.h"
#include "sim/report/path_report.h"

namespace moesim {
namespace {

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

}  // namespace

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

}  // namespace moesim
