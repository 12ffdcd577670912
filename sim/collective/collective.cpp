// SPDX-License-Identifier: Apache-2.0
#include "sim/collective/collective.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "sim/base/id_vector.h"
#include "sim/collective/ring.h"
#include "sim/collective/trees.h"

namespace moesim {
namespace {

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

int members_of(const MemberNodes& nodes) {
  std::size_t members = 0;
  for (const auto& node : nodes) members += node.size();
  return static_cast<int>(members);
}

std::size_t smallest(const MemberNodes& nodes) {
  return std::ranges::min(nodes, {}, &std::vector<GpuId>::size).size();
}

/// Members of a node, from the one of index `first` on.
Ring turned(const std::vector<GpuId>& node, std::size_t first) {
  Ring ring = node;
  std::rotate(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(first), ring.end());
  return ring;
}

/// Traffic without bytes.
CollectiveTraffic nothing(int members) {
  CollectiveTraffic none;
  for (int m = 0; m < members; ++m) none.traffic.add_row({});
  return none;
}

/// Each member passes the parts of all others on, `times` times.
CollectiveTraffic ring_collective(const MemberNodes& nodes, Bytes part, int times) {
  const int members = members_of(nodes);
  if (members == 1 || part == Bytes(0)) return nothing(members);
  const auto rings = rings_through(nodes);
  const Bytes of_ring(divided_up(part.value, std::ssize(rings)));
  const int passed = times * (members - 1);
  return {ring_traffic(rings, members, of_ring, static_cast<std::uint32_t>(passed)), passed, true};
}

ByteMatrix sum(const ByteMatrix& a, const ByteMatrix& b) {
  ByteMatrix all(a.unit());
  for (const GpuId gpu : ids<GpuId>(a.ranks())) {
    std::map<GpuId, std::uint32_t> row;
    for (const auto& entry : a.row(gpu)) row[entry.to] += entry.units;
    for (const auto& entry : b.row(gpu)) row[entry.to] += entry.units;
    std::vector<ByteMatrix::Entry> entries;
    for (const auto& [to, units] : row) entries.push_back({to, units});
    all.add_row(entries);
  }
  return all;
}

/// Parts go round between nodes, then those of all nodes inside each of them; or the other way
/// about.
CollectiveTraffic in_two_levels(const MemberNodes& nodes, Bytes part, int times) {
  const int members = members_of(nodes);
  const std::size_t size = smallest(nodes);
  if (!equal_nodes(nodes)) {
    throw std::invalid_argument("a hierarchical collective on nodes of different sizes");
  }
  if (members == 1 || part == Bytes(0)) return nothing(members);
  std::vector<Ring> between(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (const auto& node : nodes) between[i].push_back(node[i]);
  }
  const int others = times * (static_cast<int>(nodes.size()) - 1);
  const int inside = times * (static_cast<int>(size) - 1);
  const auto units = [](std::size_t count) { return static_cast<std::uint32_t>(count); };
  return {sum(ring_traffic(between, members, part, units(static_cast<std::size_t>(others))),
              ring_traffic(nodes, members, part,
                           units(static_cast<std::size_t>(inside) * nodes.size()))),
          others + inside};
}

Bytes part_of(Bytes bytes, const MemberNodes& nodes) {
  return Bytes(divided_up(bytes.value, members_of(nodes)));
}

}  // namespace

bool equal_nodes(const MemberNodes& nodes) {
  return std::ranges::all_of(nodes,
                             [&](const auto& node) { return node.size() == nodes.front().size(); });
}

MemberNodes one_node(int members) {
  MemberNodes nodes(1);
  for (const GpuId member : ids<GpuId>(members)) nodes[0].push_back(member);
  return nodes;
}

MemberNodes by_node(const std::vector<int>& node_of_member) {
  std::map<int, std::vector<GpuId>> nodes;
  for (const GpuId member : ids_of<GpuId>(node_of_member)) {
    nodes[node_of_member[member.index()]].push_back(member);
  }
  MemberNodes result;
  for (auto& entry : nodes) result.push_back(std::move(entry.second));
  return result;
}

std::vector<Ring> rings_through(const MemberNodes& nodes) {
  std::vector<Ring> rings(nodes.size() == 1 ? 1 : smallest(nodes));
  for (std::size_t r = 0; r < rings.size(); ++r) {
    for (const auto& node : nodes) {
      const Ring part = turned(node, r);
      rings[r].insert(rings[r].end(), part.begin(), part.end());
    }
  }
  return rings;
}

CollectiveTraffic all_gather(const MemberNodes& nodes, Bytes part) {
  return ring_collective(nodes, part, 1);
}

CollectiveTraffic all_gather(const std::vector<std::int64_t>& parts, Bytes unit) {
  const std::size_t members = parts.size();
  std::int64_t one_way = 0, other_way = 0;  // of all parts
  for (const std::int64_t part : parts) {
    one_way += (part + 1) / 2;
    other_way += part / 2;
  }
  if (members == 1 || one_way == 0) return nothing(static_cast<int>(members));
  ByteMatrix traffic(unit);
  for (std::size_t m = 0; m < members; ++m) {
    const std::size_t next = (m + 1) % members, before = (m + members - 1) % members;
    std::vector<std::uint32_t> row(members);
    // A neighbour has its own part.
    row[next] += static_cast<std::uint32_t>(one_way - (parts[next] + 1) / 2);
    row[before] += static_cast<std::uint32_t>(other_way - parts[before] / 2);
    traffic.add_dense_row(row);
  }
  return {traffic, static_cast<int>(members) - 1, true};
}

CollectiveTraffic two_shot_all_reduce(const MemberNodes& nodes,
                                      const std::vector<std::int64_t>& parts, Bytes unit) {
  const int members = members_of(nodes);
  if (members == 1) return nothing(1);
  if (!equal_nodes(nodes)) return two_shot_all_reduce(one_node(members), parts, unit);
  const std::size_t size = nodes.front().size();
  std::vector<std::int64_t> inside(size);  // what members of an index sum for their nodes
  for (const auto& node : nodes) {
    for (std::size_t i = 0; i < size; ++i) inside[i] += parts[node[i].index()];
  }
  ByteMatrix traffic(unit);
  std::vector<std::vector<std::uint32_t>> rows(parts.size());
  for (const auto& node : nodes) {
    for (std::size_t i = 0; i < size; ++i) {
      auto& row = rows[node[i].index()];
      row.resize(parts.size());
      const auto send = [&](GpuId to, std::int64_t own, std::int64_t of_other) {
        if (to != node[i]) row[to.index()] = static_cast<std::uint32_t>(own + of_other);
      };
      for (std::size_t j = 0; j < size; ++j) send(node[j], inside[i], inside[j]);
      const std::int64_t part = parts[node[i].index()];
      for (const auto& other : nodes) send(other[i], part, parts[other[i].index()]);
    }
  }
  for (const auto& row : rows) traffic.add_dense_row(row);
  return {traffic, (size > 1 ? 2 : 0) + (nodes.size() > 1 ? 2 : 0)};
}

CollectiveTraffic reduce_scatter(const MemberNodes& nodes, Bytes part) {
  return ring_collective(nodes, part, 1);
}

CollectiveTraffic all_reduce(const MemberNodes& nodes, Bytes bytes) {
  return ring_collective(nodes, part_of(bytes, nodes), 2);
}

CollectiveTraffic hierarchical_all_gather(const MemberNodes& nodes, Bytes part) {
  return in_two_levels(nodes, part, 1);
}

CollectiveTraffic hierarchical_reduce_scatter(const MemberNodes& nodes, Bytes part) {
  return in_two_levels(nodes, part, 1);
}

CollectiveTraffic hierarchical_all_reduce(const MemberNodes& nodes, Bytes bytes) {
  return in_two_levels(nodes, part_of(bytes, nodes), 2);
}

CollectiveTraffic tree_all_reduce(const MemberNodes& nodes, Bytes bytes) {
  const int members = members_of(nodes);
  if (members == 1 || bytes == Bytes(0)) return nothing(members);
  const std::size_t pairs = smallest(nodes);
  std::vector<std::vector<std::uint32_t>> units(
      static_cast<std::size_t>(members),
      std::vector<std::uint32_t>(static_cast<std::size_t>(members)));
  const auto both_ways = [&](GpuId a, GpuId b) {
    ++units[a.index()][b.index()];
    ++units[b.index()][a.index()];
  };
  const auto trees = two_trees(static_cast<int>(nodes.size()));
  int depth = 0;
  std::size_t chain = 0;
  for (const TreeParents& tree : trees) {
    depth = std::max(depth, depth_of(tree));
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      chain = std::max(chain, nodes[n].size() - 1);
      for (std::size_t p = 0; p < pairs; ++p) {
        const Ring inside = turned(nodes[n], p);
        for (std::size_t i = 1; i < inside.size(); ++i) both_ways(inside[i - 1], inside[i]);
        if (tree[n] >= 0) both_ways(inside.front(), nodes[static_cast<std::size_t>(tree[n])][p]);
      }
    }
  }
  ByteMatrix traffic(Bytes(divided_up(bytes.value, 2 * static_cast<std::int64_t>(pairs))));
  for (const auto& row : units) traffic.add_dense_row(row);
  return {traffic, 2 * (depth + static_cast<int>(chain))};
}

CollectiveTraffic ring_shift(int members, Bytes bytes, int times) {
  if (members == 1 || bytes == Bytes(0) || times == 0) return nothing(members);
  ByteMatrix traffic(bytes);
  for (int from = 0; from < members; ++from) {
    const ByteMatrix::Entry entry{GpuId((from + 1) % members), static_cast<std::uint32_t>(times)};
    traffic.add_row({&entry, 1});
  }
  return {traffic, times, true};
}

}  // namespace moesim
