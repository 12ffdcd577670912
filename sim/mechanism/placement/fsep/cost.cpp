// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/cost.h"

#include <algorithm>

#include "sim/base/id_vector.h"

namespace moesim::fsep {
namespace {

Seconds computation(const Spread& sums, const Placement& placement, const CostParameters& p,
                    Counting counting) {
  std::vector<double> received(sums.slots.begin(), sums.slots.end());
  if (counting == Counting::planner) {
    for (std::size_t s = 0; s < received.size(); ++s) received[s] += sums.slots_planner_extra[s];
  }
  const std::vector<double> ranks = per_rank(placement, received);
  const double passes = p.activation_checkpointing ? 4 : 3;
  return passes * *std::max_element(ranks.begin(), ranks.end()) * p.per_token_slot;
}

Seconds communication(double byte_seconds, const CostParameters& p) {
  return Seconds(4 * static_cast<double>(p.token.value) * byte_seconds);
}

/// Token-slots times seconds per byte, summed over what one source sends.
double sent_by(GpuId source, const LoadMatrix& loads, const Reach& reach,
               std::span<const double> seconds_per_byte, Counting counting) {
  const int node = source.value / reach.ranks_per_node();
  double sum = 0;
  for (const ExpertId e : ids<ExpertId>(loads.experts())) {
    const std::int64_t choices = loads.at(source, e);
    if (choices == 0) continue;
    const std::span<const SlotId> slots = reach.slots(node, e);
    const auto w = static_cast<std::int64_t>(slots.size());
    const auto rest = static_cast<std::size_t>(choices % w);
    double first = 0;  // over the slots that get one more
    double all = 0;
    for (std::size_t p = 0; p < slots.size(); ++p) {
      if (p == rest) first = all;
      all += seconds_per_byte[reach.placement().gpu_of(slots[p]).index()];
    }
    const std::int64_t shared = counting == Counting::planner ? choices : choices - choices % w;
    sum += static_cast<double>(shared) / static_cast<double>(w) * all + first;
  }
  return sum;
}

}  // namespace

Cost cost(const LoadMatrix& loads, const Reach& reach, const CostParameters& p, Counting counting) {
  const Spread sums = spread(loads, reach);
  const auto& sent = sums.distance;
  ByDistance<double> extra;
  if (counting == Counting::planner) extra = sums.distance_planner_extra;
  const double byte_seconds =
      (static_cast<double>(sent.same_rank) + extra.same_rank) / p.same_rank.value +
      (static_cast<double>(sent.same_node) + extra.same_node) / p.same_node.value +
      (static_cast<double>(sent.other_node) + extra.other_node) / p.other_node.value;
  return {communication(byte_seconds, p), computation(sums, reach.placement(), p, counting)};
}

Cost cost(const LoadMatrix& loads, const Reach& reach, const CostParameters& p, const Links& links,
          Counting counting) {
  const Spread sums = spread(loads, reach);
  std::vector<double> seconds_per_byte(loads.sources());
  double byte_seconds = 0;
  for (const GpuId source : ids<GpuId>(loads.sources())) {
    links(source, seconds_per_byte);
    byte_seconds += sent_by(source, loads, reach, seconds_per_byte, counting);
  }
  return {communication(byte_seconds, p), computation(sums, reach.placement(), p, counting)};
}

}  // namespace moesim::fsep
