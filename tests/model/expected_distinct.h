// SPDX-License-Identifier: Apache-2.0
// The groups that tokens of uniform routing touch: a closed form.
#pragma once

#include <algorithm>

namespace moesim {

/// Expected number of groups that a token touches when it chooses top_k of `experts` uniformly
/// without replacement and the experts are in `groups` equal groups:
/// R (1 - C(E - E/R, K) / C(E, K)).
inline double expected_distinct(int groups, int experts, int top_k) {
  const int others = experts - experts / groups;  // experts outside one group
  double missed = 1;                              // probability that no choice is in the group
  for (int k = 0; k < top_k; ++k) missed *= std::max(0.0, 1.0 * (others - k) / (experts - k));
  return groups * (1 - missed);
}

}  // namespace moesim
