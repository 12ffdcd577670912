// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/replica_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/error.h"
#include "sim/base/ordering.h"

namespace moesim {

Shares run_length(std::span<const SlotId> sequence) {
  if (sequence.empty()) throw Error("a sequence of choices is empty");
  Shares shares;
  for (const SlotId slot : sequence) {
    if (shares.empty() || shares.back().slot != slot) shares.push_back({slot, 0});
    ++shares.back().count;
  }
  return shares;
}

std::vector<std::int64_t> apportion(std::int64_t count, std::span<const double> weights) {
  if (weights.empty()) throw Error("choices cannot be dealt out to no one");
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> parts(weights.size());
  std::vector<double> remainder(weights.size());
  std::int64_t rest = count;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(count) *
                         (sum > 0 ? weights[i] / sum : 1.0 / static_cast<double>(weights.size()));
    parts[i] = std::min(rest, static_cast<std::int64_t>(std::floor(exact)));
    remainder[i] = exact - static_cast<double>(parts[i]);
    rest -= parts[i];
  }
  const std::vector<std::size_t> order = descending<std::size_t>(remainder);
  for (std::size_t i = 0; rest > 0; --rest, ++i) ++parts[order[i % order.size()]];
  return parts;
}

}  // namespace moesim
