// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/layer_replicas.h"

#include <algorithm>

namespace moesim {

LayerReplicas::LayerReplicas(std::vector<const StageSpace*> stages, const Topology& topology)
    : stages_(std::move(stages)) {
  std::vector<GpuId> all;
  for (const StageSpace* stage : stages_) {
    const Group& gpus = stage->gpus()->in_plan(stage->everybody());
    all.insert(all.end(), gpus.begin(), gpus.end());
    const auto groups = stage->groups(ParallelAxis::dp_cp);
    dense_.resize(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const GpuId own : groups[g]) dense_[g].push_back(stage->gpus()->in_plan(own));
    }
  }
  std::ranges::sort(all);
  everybody_ = stages_.size() == 1 ? stage().gpus()->in_plan(stage().everybody()) : Group(all);
  std::vector<int> node_of;
  for (const GpuId gpu : dense_.front()) node_of.push_back(topology.host_of(gpu));
  nodes_ = by_node(node_of);
}

int LayerReplicas::of_experts() const {
  const std::size_t of_stage = stage().groups(ParallelAxis::edp).front().size();
  return static_cast<int>(of_stage * stages_.size());
}

ByteMatrix LayerReplicas::in_dense_groups(const ByteMatrix& of_group) const {
  return among(dense_, of_group);
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
