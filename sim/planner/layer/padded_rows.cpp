// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/padded_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace moesim {

void PaddedRows::add(const RowCounts& counts) {
  if (counts.padded_phases.empty()) return;
  const auto rows = [](const std::vector<RowTable>& phases) {
    std::int64_t sum = 0;
    for (const RowTable& phase : phases) sum += phase.total();
    return sum;
  };
  const auto all = [](const std::vector<std::int64_t>& slots) {
    return std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
  };
  exact_ += rows(counts.phases);
  on_wire_ += rows(counts.padded_phases);
  choices_ += all(counts.slots);
  computed_ += all(counts.computed());
}

std::vector<std::string> PaddedRows::notes() const {
  constexpr double least_told = 1.05;
  const auto times = [](std::int64_t padded, std::int64_t exact) {
    return exact > 0 ? static_cast<double>(padded) / static_cast<double>(exact) : 1.0;
  };
  const double rows = times(on_wire_, exact_);
  const double work = times(computed_, choices_);
  if (std::max(rows, work) < least_told) return {};
  return {fmt::format(
      "pads: {:.1f} times as many rows on the wire, {:.1f} times as much expert work as without "
      "padding (megatron and megatron-2dh send exact rows)",
      rows, work)};
}

}  // namespace moesim
