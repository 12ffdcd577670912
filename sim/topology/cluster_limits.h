// SPDX-License-Identifier: Apache-2.0
// How large a cluster may be that a few bytes of a file ask for.
#pragma once

#include <cstdint>

namespace moesim {

/// The most routing cost of a link: sums of costs along a route fit into an int.
inline constexpr int most_link_cost = 1'000'000;

/// Several times a cluster of a hundred thousand GPUs, of some hundred bytes each.
struct ClusterLimits {
  std::int64_t gpus = 1'000'000;
  double vertices = 1 << 22, cables = 1 << 22;
};

}  // namespace moesim
