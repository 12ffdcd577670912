// SPDX-License-Identifier: Apache-2.0
#include "sim/report/bounds_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/base/units.h"

namespace moesim {
namespace {

std::vector<Cell> bounds_row(const PolicyBounds& of) {
  const BoundSums& sums = of.sums;
  std::string classes;
  for (std::size_t c = 0; c < sums.classes.size(); ++c) {
    if (sums.classes[c] == 0) continue;
    if (!classes.empty()) classes += "  ";
    classes +=
        fmt::format("{} {}", of.topology->classes()[c].name, to_string(Bytes(sums.classes[c])));
  }
  return {of.topology->name(),
          of.policy,
          fmt::format("{}", fmt::join(sums.phases, "-")),
          sums.alone,
          sums.bound,
          sums.least_ratio > 0 ? ratio_cell(sums.least_ratio, 2) : Cell("-"),
          sums.between_hosts,
          sums.least_between_hosts,
          sums.dedup,
          classes};
}

}  // namespace

void BoundSums::add(const Explanation& layer, const Topology& topology, const std::string& plan) {
  for (const BoundReport& movement : layer.bounds) {
    const Seconds time = movement.achieved.front().second;
    alone += time;
    bound += movement.bound();
    between_hosts += movement.between_hosts;
    if (movement.least.bytes.value == 0) continue;
    const double ratio = time / movement.bound();
    if (ratio < 1 - 1e-9) {
      throw std::logic_error(fmt::format("{}: {} takes {}, less than the least possible {}", plan,
                                         name_of(movement.stage), to_string(time),
                                         to_string(movement.bound())));
    }
    least_ratio = least_ratio == 0 ? ratio : std::min(least_ratio, ratio);
  }
  classes.resize(topology.classes().size());
  for (const PhaseReport& phase : layer.phases) {
    for (const ClassLoad& load : phase.classes) {
      classes[static_cast<std::size_t>(load.link_class)] += load.bytes;
    }
  }
}

Table bounds_table(const std::vector<PolicyBounds>& policies) {
  Table table("bounds", 3,
              {"topology", "policy", "phases", "exchanges", "least", "nearest", "off-host bytes",
               "least off-host", "perfect dedup", "bytes per link class"});
  for (const PolicyBounds& of : policies) table.rows.push_back(bounds_row(of));
  return table;
}

}  // namespace moesim
