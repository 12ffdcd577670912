// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/alike_ranks.h"

#include <algorithm>
#include <vector>

namespace moesim {
namespace {

/// How many members of an EP group follow each other on a host; 0 if hosts have unlike numbers.
int on_a_host(const std::vector<GpuId>& members, const Topology& topology) {
  std::vector<int> runs;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool starts = i == 0 || topology.host_of(members[i]) != topology.host_of(members[i - 1]);
    starts ? runs.push_back(1) : void(++runs.back());
  }
  const bool same = std::ranges::all_of(runs, [&](int run) { return run == runs.front(); });
  return same ? runs.front() : 0;
}

/// The same of every group; 0 if they differ.
int on_a_host(const GpuGroups& groups, const Topology& topology) {
  const int first = on_a_host(groups.front(), topology);
  const bool same = std::ranges::all_of(
      groups, [&](const auto& group) { return on_a_host(group, topology) == first; });
  return same ? first : 0;
}

/// From sizes of blocks of ranks to the parts of a rank's place; none if one does not divide the
/// next.
std::vector<int> parts_of(std::vector<int> sizes) {
  std::ranges::sort(sizes);
  std::vector<int> parts;
  int before = 1;
  for (const int size : sizes) {
    if (size % before != 0) return {};
    if (size > before) parts.push_back(size / before);
    before = size;
  }
  return parts;
}

}  // namespace

std::optional<AlikeRanks> alike_ranks(const IterationShape& shape, const IterationSpec& spec,
                                      const Topology& topology, const MoeModel& model) {
  const Grid& grid = shape.grid;
  const int ep = grid.size(ParallelAxis::ep), shares = grid.size(ParallelAxis::tp_cp);
  const std::int64_t microbatch = std::int64_t{spec.micro_batch} * spec.sequence;
  if (ep < 2 || model.experts % ep != 0 || microbatch % shares != 0) return std::nullopt;
  std::vector<int> blocks = {ep, on_a_host(grid.groups(ParallelAxis::ep), topology)};
  if (blocks.back() == 0) return std::nullopt;
  if (model.gate_kept_groups < model.gate_groups && model.gate_groups % ep != 0) {
    if (ep % model.gate_groups != 0) return std::nullopt;
    blocks.push_back(ep / model.gate_groups);
  }
  AlikeRanks alike{
      parts_of(std::move(blocks)), {}, grid.size(ParallelAxis::dp), shares, spec.micro_batch};
  if (alike.parts.empty()) return std::nullopt;
  alike.place.resize(static_cast<std::size_t>(alike.replicas * shares));
  const int tp = grid.size(ParallelAxis::tp);
  for (const GpuId gpu : grid.stage(0)) {
    const GridPlace place = grid.place(gpu);
    alike.place[static_cast<std::size_t>(place.dp * shares + place.cp * tp + place.tp)] = place.ep;
  }
  return alike;
}

}  // namespace moesim
