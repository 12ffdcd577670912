// SPDX-License-Identifier: Apache-2.0
// Names of a cluster's parts, and what a link yields.
#include "sim/topology/topology.h"

namespace moesim {

const char* name_of(VertexKind kind) {
  static constexpr const char* names[] = {"gpu",  "nvswitch", "pcie_switch", "socket", "nic",
                                          "leaf", "spine",    "core",        "router"};
  return names[static_cast<int>(kind)];
}

const char* name_of(Tier tier) {
  static constexpr const char* names[] = {"host", "fabric", "wan"};
  return names[static_cast<int>(tier)];
}

BytesPerSecond Link::bandwidth_of(std::int64_t number) const {
  if (crowded.pairs == 0 || number <= crowded.from) return bandwidth;
  if (number >= crowded.pairs) return crowded.bandwidth;
  const auto inverse = [](std::int64_t pairs) { return 1 / static_cast<double>(pairs); };
  const double part =
      (inverse(number) - inverse(crowded.pairs)) / (inverse(crowded.from) - inverse(crowded.pairs));
  return BytesPerSecond(crowded.bandwidth.value +
                        part * (bandwidth.value - crowded.bandwidth.value));
}

double Link::part_of(Bytes size) const {
  return table ? (size / bandwidth) / table->time(size) : 1;
}

}  // namespace moesim
