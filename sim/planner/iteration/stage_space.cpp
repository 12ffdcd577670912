// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/stage_space.h"

#include <algorithm>
#include <numeric>

#include "sim/planner/layer/expert_tensors.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {
namespace {

/// Merges lists of GPUs that share one into the least disjoint groups that hold them whole.
std::vector<Group> joined(int gpus, const std::vector<GpuGroups>& lists) {
  std::vector<int> root(static_cast<std::size_t>(gpus));
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](std::size_t g) {
    while (root[g] != static_cast<int>(g)) g = static_cast<std::size_t>(root[g]);
    return g;
  };
  for (const auto& groups : lists) {
    for (const auto& group : groups) {
      for (const GpuId gpu : group) {
        const std::size_t a = find(group.front().index()), b = find(gpu.index());
        root[std::max(a, b)] = static_cast<int>(std::min(a, b));
      }
    }
  }
  std::map<std::size_t, std::vector<GpuId>> members;
  for (GpuId gpu(0); gpu.value < gpus; ++gpu.value) members[find(gpu.index())].push_back(gpu);
  std::vector<Group> result;
  for (auto& [first, list] : members) result.emplace_back(std::move(list));
  return result;
}

}  // namespace

StageSpace::StageSpace(Plan& plan, const Grid& grid, int stage, const MoeModel& model,
                       const Spec& options, const Topology& topology)
    : plan_(plan),
      grid_(grid),
      model_(model),
      expert_model_(with_parts_of_experts(model, grid.size(ParallelAxis::etp))),
      options_(options),
      gpus_(std::make_shared<const GpuSubset>(grid.stage_by(ParallelAxis::ep, stage), grid.gpus())),
      everybody_(Group::first(gpus_->size())) {
  const std::int64_t sequence = options.spec.sequence;
  shard_.tokens = options.spec.micro_batch * sequence / grid.size(ParallelAxis::cp);
  shard_.attended = (sequence + 1) / 2;
  shard_.tp = grid.size(ParallelAxis::tp);
  shard_.gemm_types = options.gemm_types(model);
  if (options.serves()) share_batch();
  cells_ = joined(gpus_->size(), {groups(ParallelAxis::tp_cp), groups(ParallelAxis::etp_ep)});
  for (GpuId own(0); own.value < gpus_->size(); ++own.value) {
    copies_.push_back(grid.copy_of(gpus_->in_plan(own), options.spec.dp_replicate));
  }
  std::vector<GpuId> tensor_group = groups(ParallelAxis::tp).front();
  for (GpuId& member : tensor_group) member = gpus_->in_plan(member);
  tensor_nodes_ = nodes_of(tensor_group, topology);
}

/// Every part of every rank's batch; ranks that are alike have it once.
void StageSpace::share_batch() {
  const ServingSpec& serving = *options_.spec.serving;
  parts_ = parts_of(serving, drafting_layers(options_.spec, model_) > 0);
  const auto ranks = static_cast<int>(serving.batch.ranks.size());
  for (GpuId own(0); own.value < gpus_->size(); ++own.value) {
    const int rank = grid_.place(gpus_->in_plan(own)).dp;
    const int list = !serving.attends(rank) ? ranks : ranks == 1 ? 0 : rank;
    list_of_.push_back(static_cast<std::size_t>(list));
  }
  const int lists = serving.attention_ranks == 0 ? ranks : ranks + 1;
  for (const BatchPart& part : parts_) {
    auto& of_part = served_.emplace_back();
    for (int i = 0; i < lists; ++i) {
      auto list = i < ranks ? list_of(serving, i, part) : std::vector<SequenceStep>();
      const std::int64_t logits = part.drafts() ? sequences_of(list) : -1;
      of_part.push_back(serving_shard({std::move(list), serving.kv, serving.dcp, logits}, shard_.tp,
                                      shard_.gemm_types));
      if (of_part.back().tokens > shard_.tokens || !shard_.served) shard_ = of_part.back();
    }
  }
}

bool StageSpace::runs(StagePartKind kind, int microbatch) const {
  if (parts_.empty() || kind == StagePartKind::head) return true;
  return (kind == StagePartKind::mtp) == drafts(microbatch);
}

bool StageSpace::shares_keys(int layer) const {
  if (!options_.serves() || options_.spec.serving->dcp == 1) return false;
  const auto& shape = model_.attention->shape;
  return shape && !shape->is_linear(kind_of_layer(model_, layer));
}

std::vector<GroupKernel> StageSpace::served_kernels(int layer, BlockKind block, int part) const {
  const auto& shards = served_[static_cast<std::size_t>(part)];
  std::vector<std::vector<BlockKernel>> lists;
  for (const BlockShard& shard : shards) {
    lists.push_back(shard.tokens == 0 ? std::vector<BlockKernel>()
                                      : forward_kernels(model_, layer, block, shard));
  }
  return moesim::joined(lists, list_of_);
}

bool StageSpace::replicates() const {
  const auto size = [&](ParallelAxis axis) { return grid_.size(axis); };
  return options_.serves() && size(ParallelAxis::tp) > 1 && size(ParallelAxis::ep) == 1 &&
         size(ParallelAxis::etp) == size(ParallelAxis::tp) && size(ParallelAxis::cp) == 1;
}

const std::vector<SequenceStep>& StageSpace::served_by(GpuId own) const {
  return options_.spec.serving->of_rank(grid_.place(gpus_->in_plan(own)).dp);
}

Bytes StageSpace::activations() const {
  return Bytes(shard_.own_tokens() * model_.hidden * size_of(model_.activations));
}

GpuGroups StageSpace::groups(ParallelAxis axis) const {
  GpuGroups result;
  for (const auto& list : grid_.groups(axis)) {
    if (gpus_->own(list.front()).value < 0) continue;
    auto& own = result.emplace_back();
    for (const GpuId gpu : list) own.push_back(gpus_->own(gpu));
  }
  return result;
}

int StageSpace::sharers(ParallelAxis axis) const {
  return grid_.size(axis) / options_.spec.dp_replicate * stage_copies(options_.spec.pipeline);
}

int StageSpace::expert_sharers(GradientLayout layout) const {
  return layout == GradientLayout::summed ? stage_copies(options_.spec.pipeline)
                                          : sharers(ParallelAxis::edp);
}

ByteMatrix StageSpace::in_cell(const Group& cell, ParallelAxis axis,
                               const TrafficOf& of_group) const {
  std::vector<std::vector<ByteMatrix::Entry>> rows(cell.size());
  Bytes unit(1);
  for (const auto& group : groups(axis)) {
    if (!cell.contains(group.front())) continue;
    const ByteMatrix traffic = of_group(group.front());
    unit = traffic.unit();
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (const auto& entry : traffic.row(GpuId(static_cast<std::int64_t>(i)))) {
        const GpuId to = group[entry.to.index()];
        rows[cell.member(group[i])].push_back(
            {GpuId(static_cast<std::int64_t>(cell.member(to))), entry.units});
      }
      std::ranges::sort(rows[cell.member(group[i])], {}, &ByteMatrix::Entry::to);
    }
  }
  ByteMatrix result(unit);
  for (const auto& row : rows) result.add_row(row);
  return result;
}

}  // namespace moesim
