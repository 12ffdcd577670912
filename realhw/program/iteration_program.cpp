// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/iteration_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "realhw/core/parcels.h"
#include "realhw/program/op_text.h"

namespace moesim {
namespace {

std::size_t stage_of(const HeldIteration& held, GpuId rank) {
  for (std::size_t s = 0; s < held.stages.size(); ++s) {
    if (held.stages[s].gpus.contains(rank)) return s;
  }
  throw std::runtime_error(fmt::format("GPU {} is in no pipeline stage", rank.value));
}

Place elements_at(BufferId buffer, std::int64_t first) { return {buffer, first * float_bytes}; }

/// The part of the model whose parameters an exchange of replicas moves; layer -1: of all.
StagePart part_of(const OpKey& key) {
  const auto kind = static_cast<StagePartKind>(key.part);
  return {kind, kind == StagePartKind::layer ? key.layer : 0};
}

}  // namespace

IterationProgram::IterationProgram(Draft& draft, LayerOf layer_of)
    : draft_(draft),
      layer_of_(std::move(layer_of)),
      held_(*draft.step.iteration),
      stage_(stage_of(held_, draft.program.rank)) {
  const auto replica = static_cast<int>(stage().gpus.member(draft.program.rank));
  draft.program.iteration.emplace().replica = replica;
  parameters_ = std::make_unique<HeldParameters>(draft, stage(), replica);
  parameters_->add_moments();
  add_results();
}

const HeldChunk& IterationProgram::chunk_at(int position) const {
  const auto found = std::ranges::find(stage().chunks, position, &HeldChunk::position);
  if (found != stage().chunks.end()) return *found;
  throw std::runtime_error(fmt::format("position {} is not on its stage", position));
}

BlockProgram& IterationProgram::blocks(int microbatch, const HeldChunk& chunk) {
  auto& made = blocks_[{microbatch, chunk.position}];
  if (!made) {
    made = std::make_unique<BlockProgram>(
        draft_, *parameters_, chunk, microbatch,
        [this, microbatch](int layer) { return layer_of_(microbatch, layer); });
  }
  return *made;
}

bool IterationProgram::add(RankStep& step) {
  const OpKey& key = draft_.op(step).key;
  const auto of_chunk = [&]() -> BlockProgram& {
    return blocks(key.microbatch, stage().chunks.at(static_cast<std::size_t>(key.chunk)));
  };
  switch (key.kind) {
    case OpKind::stage_transfer:
      add_transfer(step);
      return true;
    case OpKind::gradient_exchange:
      add_gradients(step);
      return true;
    case OpKind::weight_exchange:
      add_weights(step);
      return true;
    case OpKind::gradient_sum:
      add_expert_gradients(step);
      return true;
    case OpKind::optimizer:
      add_update(step);
      return true;
    default:
      break;
  }
  if (BlockProgram::computes(key)) {
    of_chunk().add_kernel(step);
    return true;
  }
  if (key.role == Role::recompute) throw std::runtime_error("nothing can run again yet");
  const bool experts =
      key.stage == Stage::dispatch || key.stage == Stage::experts || key.stage == Stage::combine;
  if (experts && key.pass == Pass::backward) of_chunk().enter_experts_backward(key.layer);
  if (key.stage == Stage::experts && key.role == Role::wgrad) {
    parameters_->moments().at(key.layer).ops.added.push_back(step.op);
  }
  return false;
}

void IterationProgram::require(OpId made_by, OpId op, const char* what) const {
  if (draft_.ancestors.visible(made_by, op)) return;
  throw op_error(draft_.step.plan, draft_.program.rank, op,
                 fmt::format("it does not wait for {}", what));
}

/// One message of a microbatch's rows from each replica to its next stage, or to the one before.
void IterationProgram::add_transfer(RankStep& step) {
  const OpKey& key = draft_.op(step).key;
  const RankParcels parcels = parcels_of(draft_.op(step), draft_.program.rank);
  const std::int64_t bytes = held_.rows() * held_.model.hidden * float_bytes;
  for (const bool sent : {true, false}) {
    const auto& list = sent ? parcels.sent : parcels.received;
    if (list.empty()) continue;
    if (list.size() != 1 || list[0].bytes.value != bytes) {
      throw std::runtime_error(fmt::format("it is not one message of {} bytes", bytes));
    }
    const BufferId buffer =
        draft_.add_buffer(fmt::format("op {} {}", step.op.value, sent ? "sent" : "received"), bytes,
                          RowFormat::float32);
    const Place at{buffer, 0};
    const FiniteCheck check{step.op, {{at, held_.rows() * held_.model.hidden}}};
    if (sent) {
      blocks(key.microbatch, chunk_at(key.part)).leave(key.pass, step, at);
      step.before.emplace_back(check);
      step.sends.push_back({list[0].to, at, bytes});
    } else {
      const int position = key.part + (key.pass == Pass::forward ? 1 : -1);
      step.receives.push_back({list[0].from, at, bytes});
      step.after.emplace_back(check);
      blocks(key.microbatch, chunk_at(position)).enter(key.pass, {at, held_.model.hidden, step.op});
    }
  }
}

/// Part of member r: its shard.
RingCollective IterationProgram::dense_ring(RingKind kind, const StagePart& part,
                                            BufferId DenseBuffers::*buffer) {
  return {kind, stage().rings, [this, part, buffer](GpuId owner) {
            const auto replica = static_cast<int>(stage().gpus.member(owner));
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

void IterationProgram::add_expert_gradients(RankStep& step) {
  const int layer = draft_.op(step).key.layer;
  const RoutedLayer& routing = routing_of(layer);
  const ExpertBuffers& buffers = draft_.experts.at(layer);
  const ExpertShape& shape = draft_.step.shape;
  const std::int64_t elements = shape.hidden * (shape.up() + shape.ffn);
  RingProgram ring(draft_, step);
  for (ExpertId expert(0); expert.value < routing.placement.experts(); ++expert.value) {
    const auto slot = std::ranges::find(buffers.experts, expert) - buffers.experts.begin();
    if (slot == std::ssize(buffers.experts)) continue;
    const std::vector<GpuId> holders = holders_of(routing, expert);
    ring.add({RingKind::all_reduce, {holders}, [=, &buffers](GpuId owner) {
                const std::int64_t n = std::ssize(holders);
                const std::int64_t i = std::ranges::find(holders, owner) - holders.begin();
                const std::int64_t begin = elements * i / n, end = elements * (i + 1) / n;
                return std::vector<Segment>{
                    {elements_at(buffers.gradients, slot * elements + begin), end - begin}};
              }});
  }
  ring.finish();
  parameters_->moments().at(layer).ops.summed = step.op;
}

void IterationProgram::add_update(RankStep& step) {
  AdamUpdate update{{}, {}};
  FiniteCheck check{step.op, {}};
  const auto add = [&](BufferId gradients, BufferId first, BufferId second, BufferId weights,
                       ElementRange range) {
    const auto at = [&](BufferId buffer) { return elements_at(buffer, range.first); };
    const std::int64_t elements = range.second - range.first;
    if (elements == 0) return;
    update.ranges.push_back({at(gradients), at(first), at(second), at(weights), elements});
    check.ranges.push_back({at(weights), elements});
  };
  for (DenseBuffers* held : parameters_->all_dense()) {
    const ElementRange all{0, held->tensors.elements()};
    add(held->gradients, held->first, held->second, held->weights,
        held_.zero > 0 ? held->shard(parameters_->replica()) : all);
  }
  const ExpertShape& shape = draft_.step.shape;
  const std::int64_t of_expert = shape.hidden * (shape.up() + shape.ffn);
  for (const auto& [layer, buffers] : draft_.experts) {
    const ExpertMoments& moments = parameters_->moments().at(layer);
    add(buffers.gradients, moments.first, moments.second, buffers.parameters,
        {0, std::ssize(buffers.experts) * of_expert});
  }
  step.before.emplace_back(DenseCall(std::move(update)));
  step.after.emplace_back(std::move(check));
  update_ = step.op;
}

/// Here and not where they are added, because ops that do not wait may come in any order.
void IterationProgram::check_waits() const {
  const auto check = [this](const ParameterOps& ops) {
    for (const OpId use : ops.uses) require(ops.gathered, use, "the weights that it computes with");
    for (const OpId by : ops.added) {
      require(by, ops.summed.value < 0 ? update_ : ops.summed, "all gradients that it takes");
    }
    require(ops.summed, update_, "the sums of the gradients that it takes");
  };
  for (const DenseBuffers* held : parameters_->all_dense()) check(held->ops);
  for (const auto& [layer, moments] : parameters_->moments()) check(moments.ops);
  for (const OpId gather : gathers_) require(update_, gather, "the update of what it gathers");
}

void IterationProgram::add_results() {
  IterationResults& results = *draft_.program.iteration;
  for (DenseBuffers* held : parameters_->all_dense()) {
    const ElementRange all{0, held->tensors.elements()}, own = held->shard(results.replica);
    results.dense.push_back({held->tensors.part(),
                             {held->weights, 0},
                             {held->gradients, 0},
                             held_.zero > 0 ? own : all,
                             held_.gathers_parameters ? own : all});
  }
  const ExpertShape& shape = draft_.step.shape;
  const std::int64_t of_expert = shape.hidden * (shape.up() + shape.ffn);
  for (const auto& [layer, buffers] : draft_.experts) {
    for (std::size_t s = 0; s < buffers.experts.size(); ++s) {
      const std::int64_t first = static_cast<std::int64_t>(s) * of_expert;
      results.experts.push_back({layer, buffers.experts[s], elements_at(buffers.parameters, first),
                                 elements_at(buffers.gradients, first)});
    }
  }
}

}  // namespace moesim
