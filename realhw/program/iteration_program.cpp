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

}  // namespace

IterationProgram::IterationProgram(Draft& draft, LayerOf layer_of)
    : draft_(draft),
      layer_of_(std::move(layer_of)),
      held_(*draft.step.iteration),
      stage_(stage_of(held_, draft.program.rank)) {
  const HeldPlace place = held_.place(stage(), draft.program.rank);
  draft.program.iteration.emplace().place = place;
  parameters_ = std::make_unique<HeldParameters>(draft, stage(), place);
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
    case OpKind::tensor_exchange:
      if (key.stage == Stage::reduce) {
        add_undivided_gradients(step);
      } else {
        of_chunk().add_exchange(step);
      }
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
    case OpKind::parameter_exchange:
      add_expert_weights(step);
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

/// One message of a microbatch's rows from each GPU to its next stage, or to the one before.
void IterationProgram::add_transfer(RankStep& step) {
  const OpKey& key = draft_.op(step).key;
  const RankParcels parcels = parcels_of(draft_.op(step), draft_.program.rank);
  const std::int64_t rows = held_.own_rows();
  const std::int64_t bytes = rows * held_.model.hidden * float_bytes;
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
    const FiniteCheck check{step.op, {{at, rows * held_.model.hidden}}};
    if (sent) {
      blocks(key.microbatch, chunk_at(key.part)).leave(key.pass, step, at);
      step.before.emplace_back(check);
      step.sends.push_back({list[0].to, at, bytes});
    } else {
      const int position = key.part + (key.pass == Pass::forward ? 1 : -1);
      step.receives.push_back({list[0].from, at, bytes});
      step.after.emplace_back(check);
      blocks(key.microbatch, chunk_at(position))
          .enter(key.pass, {at, rows, held_.model.hidden, step.op});
    }
  }
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
    for (std::size_t s = 0; s < buffers.experts.size(); ++s) {
      const std::int64_t first = static_cast<std::int64_t>(s) * of_expert;
      const auto [begin, end] = updated_part(layer, buffers.experts[s]);
      add(buffers.gradients, moments.first, moments.second, buffers.parameters,
          {first + begin, first + end});
    }
  }
  step.before.emplace_back(DenseCall(std::move(update)));
  step.after.emplace_back(std::move(check));
  update_ = step.op;
}

/// Of what is whole in the tensor group.
void IterationProgram::check_sums(const ParameterOps& ops) const {
  for (const OpId by : ops.added) require(by, undivided_, "all gradients that it takes");
  require(ops.summed, undivided_, "the sums of replicas that it takes");
  require(undivided_, update_, "the sums of the tensor group");
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
  if (held_.tp > 1 && undivided_.value < 0) {
    throw std::runtime_error("nothing sums gradients over the tensor group");
  }
  for (const DenseBuffers* held : parameters_->all_dense()) {
    check(held->ops);
    if (held_.tp > 1) check_sums(held->ops);
  }
  for (const auto& [layer, moments] : parameters_->moments()) check(moments.ops);
  for (const OpId gather : gathers_) require(update_, gather, "the update of what it gathers");
}

void IterationProgram::add_results() {
  IterationResults& results = *draft_.program.iteration;
  for (DenseBuffers* held : parameters_->all_dense()) {
    const ElementRange all{0, held->tensors.elements()}, own = held->shard(results.place.replica);
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
      const ElementRange all{0, of_expert}, own = updated_part(layer, buffers.experts[s]);
      results.experts.push_back({layer, buffers.experts[s], elements_at(buffers.parameters, first),
                                 elements_at(buffers.gradients, first), own,
                                 held_.gathers_parameters ? own : all});
    }
  }
}

}  // namespace moesim
