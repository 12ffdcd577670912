// SPDX-License-Identifier: Apache-2.0
// A small directed graph for routing: adjacency in compressed rows. It needs no
// library, so that hardware nodes build it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace moesim {

/// A directed edge; `link` is whatever the owner numbers its links with.
struct Arc {
  int from = 0;
  int to = 0;
  int cost = 1;
  double latency = 0;
  int link = 0;
};

inline constexpr int unreachable = std::numeric_limits<int>::max() / 4;

class Digraph {
 public:
  Digraph(int vertices, std::vector<Arc> arcs);

  int size() const { return static_cast<int>(first_.size()) - 1; }
  /// Arcs that leave a vertex, by ascending link.
  std::span<const Arc> out(int vertex) const {
    const auto v = static_cast<std::size_t>(vertex);
    return {arcs_.data() + first_[v], arcs_.data() + first_[v + 1]};
  }
  /// Least cost from every vertex to `target`; `unreachable` if there is no path.
  std::vector<int> distances_to(int target) const;

 private:
  std::vector<Arc> arcs_, entering_;  // by where they leave and where they end
  std::vector<std::size_t> first_, first_entering_;
};

/// Vertices that can reach the target of `distance`, farthest first (lowest id first on ties).
std::vector<int> farthest_first(const std::vector<int>& distance);

/// Bytes in transit, and the least latency of a whole route that any of them takes.
struct Load {
  std::int64_t bytes = 0;
  double latency = std::numeric_limits<double>::infinity();

  Load& operator+=(const Load& other) {
    bytes += other.bytes;
    latency = std::min(latency, other.latency);
    return *this;
  }
};

/// The equal-cost next hops of every vertex toward one set of targets, as a switch's table holds
/// them.
struct Dag {
  struct Hop {
    int link;
    int to;  // -1: the hop leaves the graph
  };
  std::vector<int> order;          // vertices with next hops, farthest first
  std::vector<std::size_t> first;  // by position in order; one more than order has
  std::vector<Hop> hops;           // ascending links within a vertex

  /// Sends what is at the vertices to the target: every vertex splits evenly over its hops, odd
  /// bytes to the lowest links. carry(link, load) is called once per hop used. What reaches the
  /// target stays in `at`.
  template <class Carry>
  void push(std::vector<Load>& at, Carry&& carry) const {
    for (std::size_t i = 0; i < order.size(); ++i) {
      Load& here = at[static_cast<std::size_t>(order[i])];
      if (here.bytes == 0) continue;
      const Load load = here;
      here = {};
      split(load, first[i + 1] - first[i], [&](std::size_t k, const Load& part) {
        const Hop& hop = hops[first[i] + k];
        if (hop.to >= 0) at[static_cast<std::size_t>(hop.to)] += part;
        carry(hop.link, part);
      });
    }
  }

  /// Calls use(k, part) for `ways` even parts of a load. The first parts get the odd bytes, so that
  /// every split is deterministic and loses none.
  template <class Use>
  static void split(const Load& load, std::size_t ways, Use&& use) {
    if (ways == 1) {
      use(0, load);
      return;
    }
    const std::int64_t each = load.bytes / static_cast<std::int64_t>(ways);
    const auto odd = static_cast<std::size_t>(load.bytes % static_cast<std::int64_t>(ways));
    for (std::size_t k = 0; k < ways; ++k) use(k, {each + (k < odd ? 1 : 0), load.latency});
  }
};

/// The next hops from every vertex that can reach the target of `distance`.
Dag dag_toward(const Digraph& graph, const std::vector<int>& distance);

/// Per vertex the largest latency of its equal-cost routes to the target. `at_end` is the latency
/// that follows behind a target (0 elsewhere).
std::vector<double> longest_latency(const Digraph& graph, const std::vector<int>& distance,
                                    std::vector<double> at_end);

}  // namespace moesim
