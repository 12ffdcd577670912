// SPDX-License-Identifier: Apache-2.0
// What the kernels of dense blocks compute. Calls of single kernels are in block_kernels.cpp.
#include "realhw/program/block_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "realhw/program/block_kept.h"
#include "sim/model/blocks.h"

namespace moesim {

BlockProgram::BlockProgram(Draft& draft, HeldParameters& parameters, const HeldChunk& chunk,
                           int microbatch, LayerOf layer_of)
    : draft_(draft),
      parameters_(parameters),
      chunk_(chunk),
      microbatch_(microbatch),
      layer_of_(std::move(layer_of)),
      held_(*draft.step.iteration),
      heads_(heads_of(held_.model, held_.tp)) {}

BlockProgram::~BlockProgram() = default;

StagePart BlockProgram::part_of(int layer, BlockKind block) const {
  if (block == BlockKind::embedding) return {StagePartKind::embedding, 0};
  if (block == BlockKind::head) return {StagePartKind::head, 0};
  return {StagePartKind::layer, layer};
}

void BlockProgram::add_kernel(RankStep& step) {
  const OpKey& key = draft_.op(step).key;
  if (key.role == Role::recompute) throw std::runtime_error("nothing can run again yet");
  if (key.kind == OpKind::shared_fc1 || key.kind == OpKind::shared_fc2) return add_shared(step);
  const BlockKind block = block_in(key.part);
  const auto place = static_cast<std::size_t>(key.part - part_in(block));
  const auto list = works(key.layer, block, key.role);
  if (place >= list.size() || kind_of(list[place]) != key.kind) {
    throw std::runtime_error(
        fmt::format("kernel {} of a block '{}' is none of the model's", place, name_of(block)));
  }
  const Work work = list[place];
  if (key.pass == Pass::forward) return forward(work, step, key.layer, block);
  if (key.role == Role::wgrad) return by_weights(work, step, key.layer, block);
  by_inputs(work, step, key.layer, block);
}

void BlockProgram::forward(Work work, RankStep& step, int layer, BlockKind block) {
  Kept& k = kept(layer, block);
  DenseBuffers& held = buffers(layer, block);
  const MoeModel& model = held_.model;
  using Id = DenseTensorId;
  const auto product = [&](const RowMatrix& a, Id id) {
    return multiply(step, GroupedProduct::Kind::plain, a, take(held, held.weight(id), step),
                    held.tensors[id].columns);
  };
  switch (work) {
    case Work::look_up: {
      const RowMatrix x = make(step, "embedded", held_.rows(), model.hidden);
      look_up(step, held, x);
      forward_ = {};
      return leave_product(k, x);
    }
    case Work::residual:
      return settle(Pass::forward, step);
    case Work::norm:
      k.x = whole(Pass::forward);
      record(layer, block, Pass::forward, k.x);
      k.n = norm(step, held, gain_of(block), k.x);
      if (block != BlockKind::moe) return;
      forward_.routed = layer_of_(layer);
      return forward_.routed->enter(Pass::forward, k.n.at, k.n.made_by);
    case Work::projections:
      k.projected = product(k.n, Id::projections);
      k.normed = k.projected;
      return;
    case Work::head_norms:
      k.normed = head_norms(step, held, k.projected, nullptr);
      return;
    case Work::rotary:
      k.rotated = rotated(step, k.normed, 1);
      return;
    case Work::scores:
      k.a = attention(step, k.rotated, nullptr);
      return;
    case Work::output:
      return leave_product(k, product(k.a, Id::attention_output));
    case Work::fc1:
      k.h = product(k.n, Id::dense_fc1);
      return;
    case Work::activation:
      k.a = activate(step, k.h, of_group(model.dense_ffn));
      return;
    case Work::fc2:
      return leave_product(k, product(k.a, Id::dense_fc2));
    case Work::head:
      k.h = product(k.n, Id::head);
      return;
    case Work::loss:
      return add_loss(step, k, false);
  }
}

void BlockProgram::by_inputs(Work work, RankStep& step, int layer, BlockKind block) {
  Kept& k = kept(layer, block);
  DenseBuffers& held = buffers(layer, block);
  const MoeModel& model = held_.model;
  using Id = DenseTensorId;
  const auto product = [&](const RowMatrix& a, Id id) {
    return multiply(step, GroupedProduct::Kind::transposed_b, a, take(held, held.weight(id), step),
                    held.tensors[id].rows);
  };
  switch (work) {
    case Work::loss:
      return add_loss(step, k, true);
    case Work::head:
      k.dn = product(k.dh, Id::head);
      return;
    case Work::fc2:
      k.dout = gradient_of_product(k);
      k.da = product(k.dout, Id::dense_fc2);
      return;
    case Work::activation:
      k.dh = activate_gradient(step, k.h, k.da, of_group(model.dense_ffn));
      return;
    case Work::fc1:
      k.dn = product(k.dh, Id::dense_fc1);
      return;
    case Work::output:
      k.dout = gradient_of_product(k);
      k.da = product(k.dout, Id::attention_output);
      return;
    case Work::scores:
      k.dh = attention(step, k.rotated, &k.da);
      return;
    case Work::rotary:
      k.dh = rotated(step, k.dh, -1);
      return;
    case Work::head_norms:
      k.dh = head_norms(step, held, k.projected, &k.dh);
      return;
    case Work::projections:
      k.dn = product(k.dh, Id::projections);
      return;
    case Work::norm: {
      if (block == BlockKind::moe) {
        RowTotal sum{k.shared_dn ? std::vector{*k.shared_dn} : std::vector<RowMatrix>(),
                     layer_of_(layer)};
        k.dn = make(step, "gradient of the experts' input", held_.own_rows(), model.hidden);
        add_up(sum, Pass::backward, step, k.dn.at);
      }
      backward_.parts.push_back(norm_gradient(step, held, gain_of(block), k.x, k.dn));
      return;
    }
    case Work::residual:
      settle(Pass::backward, step);
      return record(layer, block, Pass::backward, whole(Pass::backward));
    case Work::look_up:
      return add_embedding_gradient(step, held);
  }
}

void BlockProgram::by_weights(Work work, RankStep& step, int layer, BlockKind block) {
  const Kept& k = kept(layer, block);
  DenseBuffers& held = buffers(layer, block);
  using Id = DenseTensorId;
  switch (work) {
    case Work::projections:
      return add_outer(step, held, Id::projections, k.n, k.dh);
    case Work::output:
      return add_outer(step, held, Id::attention_output, k.a, k.dout);
    case Work::fc1:
      return add_outer(step, held, Id::dense_fc1, k.n, k.dh);
    case Work::fc2:
      return add_outer(step, held, Id::dense_fc2, k.a, k.dout);
    case Work::head:
      return add_outer(step, held, Id::head, k.n, k.dh);
    default:
      return;
  }
}

/// The products of shared experts, whose activation is a part of the kernels around it.
void BlockProgram::add_shared(RankStep& step) {
  const OpKey& key = draft_.op(step).key;
  Kept& k = kept(key.layer, BlockKind::moe);
  DenseBuffers& held = buffers(key.layer, BlockKind::moe);
  using Id = DenseTensorId;
  using Kind = GroupedProduct::Kind;
  const std::int64_t width = of_group(shared_width(held_.model));
  const bool first = key.kind == OpKind::shared_fc1;
  const Id id = first ? Id::shared_fc1 : Id::shared_fc2;
  const Place weights = take(held, held.weight(id), step);
  if (key.role == Role::wgrad) {
    return first ? add_outer(step, held, id, k.n, k.dh) : add_outer(step, held, id, k.a, k.dout);
  }
  if (key.pass == Pass::forward) {
    const RowMatrix out =
        multiply(step, Kind::plain, first ? k.n : k.a, weights, held.tensors[id].columns);
    if (!first) return leave_product(k, out);
    k.h = out;
    k.a = activate(step, k.h, width);
  } else if (first) {
    k.shared_dn = multiply(step, Kind::transposed_b, k.dh, weights, held_.model.hidden);
  } else {
    k.dout = gradient_of_product(k);
    k.da = multiply(step, Kind::transposed_b, k.dout, weights, width);
    k.dh = activate_gradient(step, k.h, k.da, width);
  }
}

void BlockProgram::enter_experts_backward(int layer) {
  if (kept(layer, BlockKind::moe).entered) return;
  kept(layer, BlockKind::moe).entered = true;
  const RowMatrix gradient = whole(Pass::backward);
  layer_of_(layer)->enter(Pass::backward, gradient.at, gradient.made_by);
}

}  // namespace moesim
