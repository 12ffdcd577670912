// SPDX-License-Identifier: Apache-2.0
// What a GPU of a cluster costs and draws.
#pragma once

#include <optional>

namespace moesim {

/// Costs of one GPU with its share of host and network; none if the topology does not state it.
struct GpuCosts {
  std::optional<double> dollars_per_hour = {};
  std::optional<double> watts = {};
  bool operator==(const GpuCosts&) const = default;
};

}  // namespace moesim
