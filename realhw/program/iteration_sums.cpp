// SPDX-License-Identifier: Apache-2.0
// What replicas and tensor groups sum and gather of gradients and weights.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "realhw/program/iteration_program.h"

namespace moesim {
namespace {

/// The part of the model whose parameters an exchange of replicas moves; layer -1: of all.
StagePart part_of(const OpKey& key) {
  const auto kind = static_cast<StagePartKind>(key.part);
  return {kind, kind == StagePartKind::layer ? key.layer : 0};
}

}  // namespace

/// Part of member r: its shard.
RingCollective IterationProgram::dense_ring(RingKind kind, const StagePart& part,
                                            BufferId DenseBuffers::*buffer) {
  const auto own = static_cast<std::size_t>(parameters_->share().part);
  return {kind, stage().rings[own], [this, part, buffer](GpuId owner) {
            const int replica = held_.place(stage(), owner).replica;
            std::vector<Segment> segments;
            for (DenseBuffers* held : parameters_->all_dense()) {
              const bool all = part.kind == StagePartKind::layer && part.number < 0;
              if (!all && !(held->tensors.part() == part)) continue;
              const auto [begin, end] = held->shard(replica);
              segments.push_back({elements_at(held->*buffer, begin), end - begin});
            }
            return segments;
          }};
}

void IterationProgram::add_gradients(RankStep& step) {
  const StagePart part = part_of(draft_.op(step).key);
  DenseBuffers& held = parameters_->dense(part);
  RingProgram ring(draft_, step);
  ring.add(dense_ring(held_.zero > 0 ? RingKind::reduce_scatter : RingKind::all_reduce, part,
                      &DenseBuffers::gradients));
  ring.finish();
  held.ops.summed = step.op;
}

void IterationProgram::add_weights(RankStep& step) {
  const StagePart part = part_of(draft_.op(step).key);
  RingProgram ring(draft_, step);
  ring.add(dense_ring(RingKind::all_gather, part, &DenseBuffers::weights));
  ring.finish();
  if (held_.gathers_parameters) {
    parameters_->dense(part).ops.gathered = step.op;
  } else {
    gathers_.push_back(step.op);
  }
}

const RoutedLayer& IterationProgram::routing_of(int layer) const {
  const auto found = std::ranges::find(draft_.step.layers, layer, &RoutedLayer::number);
  if (found != draft_.step.layers.end()) return *found;
  throw std::runtime_error(fmt::format("nothing is known of layer {}", layer));
}

/// In every EP group, the GPU that holds the expert.
std::vector<GpuId> IterationProgram::holders_of(const RoutedLayer& routing, ExpertId expert) const {
  std::vector<GpuId> holders;
  for (const SlotId slot : routing.placement.slots_of(expert)) {
    holders.push_back(routing.placement.gpu_of(slot));
  }
  std::ranges::sort(holders);
  return holders;
}

std::pair<std::int64_t, std::int64_t> IterationProgram::expert_part(
    const std::vector<GpuId>& holders, GpuId holder) const {
  const ExpertShape& shape = draft_.step.shape;
  const std::int64_t elements = shape.hidden * (shape.up() + shape.ffn);
  const std::int64_t n = std::ssize(holders);
  const std::int64_t i = std::ranges::find(holders, holder) - holders.begin();
  return {elements * i / n, elements * (i + 1) / n};
}

std::pair<std::int64_t, std::int64_t> IterationProgram::updated_part(int layer,
                                                                     ExpertId expert) const {
  const GpuId rank = draft_.program.rank;
  if (held_.zero == 0) return expert_part({rank}, rank);
  return expert_part(holders_of(routing_of(layer), expert), rank);
}

/// Of every expert that the rank holds, among all who hold it.
RingProgram IterationProgram::expert_rings(RankStep& step, RingKind kind,
                                           BufferId ExpertBuffers::*buffer) {
  const int layer = draft_.op(step).key.layer;
  const RoutedLayer& routing = routing_of(layer);
  const ExpertBuffers& buffers = draft_.experts.at(layer);
  const auto [first, elements] = expert_part({draft_.program.rank}, draft_.program.rank);
  RingProgram ring(draft_, step);
  for (ExpertId expert(0); expert.value < routing.placement.experts(); ++expert.value) {
    const auto slot = std::ranges::find(buffers.experts, expert) - buffers.experts.begin();
    if (slot == std::ssize(buffers.experts)) continue;
    const std::vector<GpuId> holders = holders_of(routing, expert);
    const std::int64_t at = slot * elements;
    ring.add({kind, {holders}, [this, holders, at, in = buffers.*buffer](GpuId owner) {
                const auto [begin, end] = expert_part(holders, owner);
                return std::vector<Segment>{{elements_at(in, at + begin), end - begin}};
              }});
  }
  return ring;
}

void IterationProgram::add_expert_gradients(RankStep& step) {
  const RingKind kind = held_.zero > 0 ? RingKind::reduce_scatter : RingKind::all_reduce;
  expert_rings(step, kind, &ExpertBuffers::gradients).finish();
  parameters_->moments().at(draft_.op(step).key.layer).ops.summed = step.op;
}

void IterationProgram::add_expert_weights(RankStep& step) {
  expert_rings(step, RingKind::all_gather, &ExpertBuffers::parameters).finish();
  if (held_.gathers_parameters) {
    parameters_->moments().at(draft_.op(step).key.layer).ops.gathered = step.op;
  } else {
    gathers_.push_back(step.op);
  }
}

/// Once the replicas have summed what each updates, the others' parts of it are of no use.
void IterationProgram::add_undivided_gradients(RankStep& step) {
  const std::vector<GpuId> group = parameters_->tensor_group();
  RingProgram ring(draft_, step);
  ring.add({RingKind::all_reduce, {group}, [&, this](GpuId owner) {
              const std::int64_t n = std::ssize(group);
              const std::int64_t i = std::ranges::find(group, owner) - group.begin();
              std::vector<Segment> segments;
              for (const DenseBuffers* held : parameters_->all_dense()) {
                for (const DenseTensor& tensor : held->tensors.all()) {
                  if (tensor.divided) continue;
                  const std::int64_t all = tensor.rows * tensor.columns, begin = all * i / n;
                  segments.push_back({elements_at(held->gradients, tensor.offset + begin),
                                      all * (i + 1) / n - begin});
                }
              }
              return segments;
            }});
  ring.finish();
  undivided_ = step.op;
}

}  // namespace moesim
