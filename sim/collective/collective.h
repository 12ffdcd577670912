// SPDX-License-Identifier: Apache-2.0
// Collectives as NCCL runs them: who sends how many bytes to whom.
#pragma once

#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"

namespace moesim {

/// The bytes of a collective between the members 0 .. n - 1 of a group, and how often in it a
/// member waits for another one's bytes: latency counts `rounds` times, bandwidth once, because the
/// rounds of the parts of a message overlap.
struct CollectiveTraffic {
  ByteMatrix traffic;
  int rounds = 0;
  bool ring = false;  // rounds pass bytes on to the next member
  bool operator==(const CollectiveTraffic&) const = default;
};

/// The members on each node, ascending: every member 0 .. n - 1 on one of them. Rings run through
/// the nodes one by one. There are as many rings as the smallest node has members: each enters and
/// leaves a node by other members, so that all NICs carry their share.
using MemberNodes = std::vector<std::vector<GpuId>>;
/// Members 0 .. n - 1 on one node, or wherever.
MemberNodes one_node(int members);
/// Members by some number of their node.
MemberNodes by_node(const std::vector<int>& node_of_member);
/// The rings that collectives take. On one node they would all be the same ring.
std::vector<std::vector<GpuId>> rings_through(const MemberNodes& nodes);

bool equal_nodes(const MemberNodes& nodes);

/// Ring collectives, in which each of n members sends and receives (n - 1) parts, half of them
/// either way round, in n - 1 rounds; all_reduce is both, of parts of bytes / n (Patarasuk & Yuan,
/// JPDC 2009). Parts are whole bytes, padded. One member does nothing.

/// Every member has `part` bytes and ends with those of all.
CollectiveTraffic all_gather(const MemberNodes& nodes, Bytes part);
/// The same of parts in different sizes, as lists of rows are: parts[i] units of member i.
CollectiveTraffic all_gather(const std::vector<std::int64_t>& parts, Bytes unit);
/// An all-reduce in two shots, as serving engines run it on NVLink: every member sends each other
/// one its part of what that one sums, then its own sum; parts[i] units are the part of member i.
/// Each sends as much as on a ring, in 2 rounds. On several nodes of one size those of equal index
/// sum between the shots, in 2 rounds more, as NCCL's NVLS trees do: only their parts leave a node.
CollectiveTraffic two_shot_all_reduce(const MemberNodes& nodes,
                                      const std::vector<std::int64_t>& parts, Bytes unit);
/// Every member has n parts and ends with the sum of one. The traffic is that of the all-gather of
/// these parts, turned round.
CollectiveTraffic reduce_scatter(const MemberNodes& nodes, Bytes part);
/// Every member has `bytes` and ends with their sum.
CollectiveTraffic all_reduce(const MemberNodes& nodes, Bytes bytes);

/// The same in two levels, for nodes of one size k: between the members of equal index of all m
/// nodes, and inside the nodes. An all-reduce scatters inside, sums between, gathers inside; its
/// rounds are 2 (k - 1) + 2 (m - 1), and 1 / k of the bytes leave a node by each of its members.
/// Throws std::invalid_argument for nodes of different sizes (see equal_nodes).
CollectiveTraffic hierarchical_all_gather(const MemberNodes& nodes, Bytes part);
CollectiveTraffic hierarchical_reduce_scatter(const MemberNodes& nodes, Bytes part);
CollectiveTraffic hierarchical_all_reduce(const MemberNodes& nodes, Bytes bytes);

/// All-reduce up and down two binary trees of nodes at once, half of the bytes on each (Sanders,
/// Speck & Traeff, ParCo 2009); inside a node along a chain, and from another member on for each of
/// as many pairs of trees as the smallest node has members. All together send what they do on a
/// ring; the rounds, 2 x (depth of the trees + length of a chain), grow with log2 of the nodes: for
/// small sums.
CollectiveTraffic tree_all_reduce(const MemberNodes& nodes, Bytes bytes);

/// Every member passes `bytes` to the next one, `times` times in turn: keys and values of ring
/// attention go members - 1 times.
CollectiveTraffic ring_shift(int members, Bytes bytes, int times = 1);

}  // namespace moesim
