// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/replicas.h"

#include <queue>

namespace moesim::fsep {
namespace {

/// An expert in the queue: the heaviest per copy is next, of equal ones the lowest id.
struct Waiting {
  double load_per_copy;
  int expert;
  bool operator<(const Waiting& o) const {  // the queue's top is its largest
    return load_per_copy != o.load_per_copy ? load_per_copy < o.load_per_copy : expert > o.expert;
  }
};

}  // namespace

std::optional<Replicas> even_replicas(int experts, const SlotGrid& grid) {
  grid.check(experts);
  if (grid.slots() % experts != 0) return std::nullopt;
  const int copies = grid.slots() / experts;
  return Replicas{std::vector<int>(experts, copies), copies, {}};
}

Replicas queue_replicas(std::span<const std::int64_t> loads, const SlotGrid& grid) {
  const int experts = static_cast<int>(loads.size());
  const int nodes = grid.nodes();
  grid.check(experts);
  Replicas replicas;
  replicas.base = static_cast<std::int64_t>(nodes) * experts <= grid.slots() ? nodes : 1;
  replicas.of.assign(loads.size(), replicas.base);
  const auto waiting = [&](int expert) {
    const auto e = static_cast<std::size_t>(expert);
    return Waiting{static_cast<double>(loads[e]) / replicas.of[e], expert};
  };
  std::priority_queue<Waiting> queue;
  for (int expert = 0; expert < experts; ++expert) queue.push(waiting(expert));
  // The queue never runs empty: with one copy per node every step fits (N*C is a multiple of the
  // nodes); with one copy to start from some expert always has fewer copies than nodes.
  for (int free = grid.slots() - replicas.base * experts; free > 0;) {
    const int expert = queue.top().expert;
    queue.pop();
    int& copies = replicas.of[expert];
    // From one copy per node on, copies come by whole rounds over the nodes, so that all
    // nodes have equally many.
    const int step = copies >= nodes ? nodes : 1;
    if (step > free) {
      replicas.frozen.emplace_back(expert);
      continue;
    }
    copies += step;
    free -= step;
    queue.push(waiting(expert));
  }
  return replicas;
}

}  // namespace moesim::fsep
