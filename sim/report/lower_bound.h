// SPDX-License-Identifier: Apache-2.0
// A time that no dispatch can beat, whatever it merges, relays or overlaps, with what perfect
// deduplication must move at least. A simulated dispatch that does is a bug, and only a bound that
// does not look at the dispatch can show it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/report/token_needs.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Bytes that must pass the ports of hosts and GPUs.
struct PortBytes {
  Ports<std::int64_t> hosts, gpus;
  std::int64_t between_hosts = 0;  // that go from one host to another

  void add(const PortBytes& other);
  bool operator==(const PortBytes&) const = default;
};

/// The least that the token exchanges of a plan with explicit rows must move, all layers, passes
/// and stages together. In each a token enters every other host and every GPU that needs it once,
/// and leaves its own once if others need it; in a combine the directions swap. Rows are as large
/// as the smallest of the stage.
PortBytes least_bytes(const Plan& plan, const Topology& topology);

/// The longest time that a port needs for its bytes at the most that its links yield to any part of
/// them. Where exchanges share links no plan that moves these bytes is faster, whatever it
/// overlaps: a link of the port is busy that long.
Seconds time_at_best_rate(const PortBytes& bytes, const Topology& topology);

/// The bound, and the port that gives it: the one that needs longest for the least that must pass.
struct LowerBound {
  Seconds time;              // the larger of `farthest` and latency + transfer
  Seconds farthest;          // least latency to the farthest target
  Seconds latency;           // until the first row can be at the port's other side
  Seconds transfer;          // bytes / bandwidth
  std::string port;          // such as "into node0", "out of node0.gpu3"; empty when nothing moves
  Bytes bytes;               // at least this much passes it
  BytesPerSecond bandwidth;  // the most that its links yield together to any part of these bytes
  Bytes between_hosts;       // least bytes of rows that go from one host to another, all together
};

/// The bound for rows of `row` bytes. Why it holds:
/// - Each token enters every other host and every GPU that it needs at least once. It leaves its
///   own host and GPU at least once if it needs others; relays may do the rest.
/// - A host's port is the sum of its links to or from the fabric and other hosts, a GPU's port the
///   sum of all its links. A link with a table counts at its best rate up to the port's bytes, so
///   that no split of them is faster.
/// - Latencies are the least of any path through the graph: a port starts no earlier than the
///   nearest of its needs allows.
/// - With `back` the same rows return, merged as far as possible: the directions swap.
/// The overhead of an exchange is not part of it.
LowerBound lower_bound(const Topology& topology, const std::vector<TokenNeeds>& needs, Bytes row,
                       bool back);

}  // namespace moesim
