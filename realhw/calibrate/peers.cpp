// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/peers.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {
namespace {

/// The groups that a group of the outer level falls into.
using Groups = std::vector<std::vector<GpuId>>;

/// Peers of the GPU at `place` of group `own`: turn by turn one of every other group, first those
/// at its own place, so that every turn is a permutation if groups have one size.
std::vector<GpuId> peers_in(const Groups& groups, std::size_t own, std::size_t place) {
  std::vector<GpuId> peers;
  std::size_t most = 0;
  for (const auto& group : groups) most = std::max(most, group.size());
  for (std::size_t turn = 0; turn < most; ++turn) {
    for (std::size_t d = 1; d < groups.size(); ++d) {
      const auto& group = groups[(own + d) % groups.size()];
      if (turn < group.size()) peers.push_back(group[(place + turn) % group.size()]);
    }
  }
  return peers;
}

std::string name_of(const std::vector<Level>& levels, std::size_t outer) {
  if (outer + 1 == levels.size()) return "inside a " + levels[outer].name;
  const std::string& inner = levels[outer + 1].name;
  return fmt::format("between {}{}", inner, inner.ends_with("ch") ? "es" : "s");
}

}  // namespace

int PeerSets::most() const {
  std::size_t most = 0;
  for (const auto& list : peers) most = std::max(most, list.size());
  return static_cast<int>(most);
}

ByteMatrix PeerSets::traffic(int count, Bytes bytes) const {
  ByteMatrix matrix(bytes);
  for (const auto& list : peers) {
    std::vector<std::uint32_t> row(peers.size(), 0);
    for (std::size_t i = 0; i < std::min(list.size(), static_cast<std::size_t>(count)); ++i) {
      row[list[i].index()] = 1;
    }
    matrix.add_dense_row(row);
  }
  return matrix;
}

std::vector<PeerSets> peer_sets_of(const Topology& topology) {
  const auto& levels = topology.levels();
  const auto gpus = static_cast<std::size_t>(topology.gpu_count());
  std::vector<PeerSets> sets;
  for (std::size_t outer = 0; outer < levels.size(); ++outer) {
    std::vector<Groups> within(static_cast<std::size_t>(levels[outer].groups));
    std::vector<std::pair<std::size_t, std::size_t>> place_of(gpus);  // group, place in it
    for (std::size_t g = 0, last = gpus; g < gpus; ++g) {
      Groups& groups = within[static_cast<std::size_t>(levels[outer].group_of[g])];
      const auto inner =
          outer + 1 < levels.size() ? static_cast<std::size_t>(levels[outer + 1].group_of[g]) : g;
      if (groups.empty() || inner != last) groups.emplace_back();
      last = inner;
      groups.back().emplace_back(g);
      place_of[g] = {groups.size() - 1, groups.back().size() - 1};
    }
    PeerSets set{name_of(levels, outer), {}};
    for (std::size_t g = 0; g < gpus; ++g) {
      const Groups& groups = within[static_cast<std::size_t>(levels[outer].group_of[g])];
      set.peers.push_back(peers_in(groups, place_of[g].first, place_of[g].second));
    }
    if (set.most() > 0) sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace moesim
