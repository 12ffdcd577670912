// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/layer_replicas.h"

#include <algorithm>

#include "sim/planner/layer/gpu_subset.h"

namespace moesim {

LayerReplicas::LayerReplicas(std::vector<const StageSpace*> stages, const Topology& topology)
    : stages_(std::move(stages)) {
  std::vector<GpuId> all;
  const int copies = stage().options().spec.dp_replicate;
  const auto held_alike = stage().groups(ParallelAxis::dp_cp).size();
  auto& sharers = sharers_.lists;
  sharers.resize(held_alike * static_cast<std::size_t>(copies));
  for (const StageSpace* each : stages_) {
    const Group& gpus = each->gpus()->in_plan(each->everybody());
    all.insert(all.end(), gpus.begin(), gpus.end());
    const auto groups = each->groups(ParallelAxis::dp_cp);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const GpuId own : groups[g]) {
        const auto copy = static_cast<std::size_t>(each->copies()[own.index()]);
        sharers[copy * held_alike + g].push_back(each->gpus()->in_plan(own));
      }
    }
  }
  for (std::size_t g = 0; g < held_alike; ++g) {
    for (std::size_t place = 0; place < sharers.front().size(); ++place) {
      auto& equal = copies_.lists.emplace_back();
      for (std::size_t first = g; first < sharers.size(); first += held_alike) {
        equal.push_back(sharers[first][place]);
      }
    }
  }
  std::ranges::sort(all);
  everybody_ = stages_.size() == 1 ? stage().gpus()->in_plan(stage().everybody()) : Group(all);
  sharers_.nodes = nodes_of(sharers.front(), topology);
  copies_.nodes = nodes_of(copies_.lists.front(), topology);
}

ByteMatrix LayerReplicas::from_stages(const ByteMatrix& all) const {
  std::vector<GpuId> members;
  for (const StageSpace* stage : stages_) {
    for (const GpuId own : stage->everybody()) members.push_back(stage->gpus()->in_plan(own));
  }
  if (members == everybody_.list()) return all;
  return among({members}, all);
}

ByteMatrix LayerReplicas::among(const std::vector<std::vector<GpuId>>& groups,
                                const ByteMatrix& of_group) const {
  std::vector<std::vector<ByteMatrix::Entry>> rows(everybody_.size());
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      auto& row = rows[everybody_.member(group[i])];
      for (const auto& entry : of_group.row(GpuId(static_cast<std::int64_t>(i)))) {
        const std::size_t to = everybody_.member(group[entry.to.index()]);
        row.push_back({GpuId(static_cast<std::int64_t>(to)), entry.units});
      }
      std::ranges::sort(row, {}, &ByteMatrix::Entry::to);
    }
  }
  ByteMatrix result(of_group.unit());
  for (const auto& row : rows) result.add_row(row);
  return result;
}

}  // namespace moesim
