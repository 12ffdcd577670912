// SPDX-License-Identifier: Apache-2.0
// A time that no dispatch can beat, whatever it merges, relays or overlaps. A simulated dispatch
// that does is a bug, and only a bound that does not look at the dispatch can show it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/token_needs.h"
#include "sim/topology/topology.h"

namespace moesim {

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
