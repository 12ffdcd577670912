// SPDX-License-Identifier: Apache-2.0
#include "sim/model/block_steps.h"

#include <tuple>

namespace moesim {
namespace {

constexpr int gradient_bytes = 4;  // main gradients are fp32
constexpr int sampled_bytes = 4;   // a logit from which one draws
constexpr int gate_bytes = 9;  // per token and expert: logit and weight in fp32, and whether chosen

BlockSteps embedding_steps(const MoeModel& model, StepList& list) {
  const std::int64_t element = list.element();
  const std::int64_t rows = list.all() * model.hidden * element;
  // The gradient is of the table's size: zeroed, filled, then added to the main gradient. It
  // belongs to the input gradients: what delays weight gradients delays only those of products
  // (WeightGradStore of deepseek-ai/DualPipe, backward_dw of Megatron-Core).
  const std::int64_t table =
      list.split(model.vocabulary) * model.hidden * (element + gradient_bytes);
  const MemoryBound look_up{Bytes(list.split(rows)), Bytes(rows)};
  const MemoryBound gradient{Bytes(rows + table), Bytes(rows + table)};
  list.step({OpKind::embedding, look_up, gradient, MemoryBound{}, {}});
  return list.take();
}

BlockSteps dense_steps(const MoeModel& model, StepList& list) {
  const std::int64_t ffn = list.split(model.dense_ffn);
  const std::int64_t up = (model.expert_matrices - 1) * ffn;
  const Recompute mlp{RecomputeModule::mlp};
  list.residual(model.hidden, {full_layer});
  list.norm(OpKind::norm, list.own(), model.hidden, mlp);
  list.linear(OpKind::dense_fc1, list.all(), up, model.hidden, mlp);
  list.memory(OpKind::dense_activation, list.all(), {up, ffn, ffn + up, up}, mlp);
  list.linear(OpKind::dense_fc2, list.all(), model.hidden, ffn, mlp);
  list.keep_stream(model.hidden, {full_layer});
  list.keep_input(list.own(), model.hidden, mlp);
  list.keep(list.all(), up, list.element(), mlp);
  list.keep_input(list.all(), ffn, mlp);
  return list.take();
}

BlockSteps moe_steps(const MoeModel& model, int layer, const BlockShard& shard, StepList& list) {
  const std::int64_t shared = list.split(std::int64_t{1} * model.shared_experts * model.shared_ffn);
  const Recompute moe{RecomputeModule::moe};
  const Recompute shared_experts{RecomputeModule::moe, RecomputeModule::shared_experts};
  const Recompute norm{RecomputeModule::layernorm};
  list.residual(model.hidden, {full_layer});
  list.norm(OpKind::norm, list.own(), model.hidden, norm);
  const bool moves = !list.has_streams();
  list.keep_stream(model.hidden, {full_layer},
                   moves ? Offload{OffloadModule::mlp_norm} : Offload{});
  list.keep(list.own(), model.hidden, list.element(), norm);  // the router reads it as it is
  list.keep(list.own(), model.experts, gate_bytes, moe);
  list.keep(list.all(), shared * (model.expert_matrices - 1), list.element(), shared_experts);
  list.keep_input(list.all(), shared, shared_experts);
  if (model.latent == 0) return list.take();
  const DataType latent = shard.gemm_types.of(GemmPart::latent, layer, Role::wgrad);
  list.keep_input(list.own(), model.latent, latent, moe);  // of the projection up
  return list.take();
}

BlockSteps mtp_steps(const MoeModel& model, StepList& list) {
  const std::int64_t both = std::int64_t{2} * model.hidden;
  list.norm(OpKind::norm, list.own(), both, {full_layer});
  list.linear(OpKind::mtp_projection, list.all(), list.split(model.hidden), both, {full_layer});
  list.keep(list.own(), both, list.element(), {});
  list.keep_input(list.own(), both, {full_layer});
  return list.take();
}

BlockSteps head_steps(const MoeModel& model, StepList& list) {
  const std::int64_t words = list.split(model.vocabulary);
  list.residual(model.hidden, {});
  list.norm(OpKind::norm, list.own(), model.hidden, {});
  list.linear(OpKind::head, list.all(), words, model.hidden, {});
  // Fused cross entropy: reads logits for their maximum and their sum, leaves probabilities.
  list.memory(OpKind::loss, list.all(), {2 * words, words, words, words}, {});
  list.keep(list.own(), model.hidden, list.element(), {});
  list.keep_input(list.own(), model.hidden, {});
  list.keep(list.all(), words, list.element(), {});
  return list.take();
}

/// Logits of the tokens that continue, and the kernel that samples from them: it reads them in fp32
/// for their maximum and sum, and to draw.
BlockSteps served_head_steps(const MoeModel& model, const BlockShard& shard) {
  BlockShard rows = shard;
  rows.tokens = shard.served->head_tokens();
  StepList list(model, rows, 0, BlockKind::head), all(model, shard, 0, BlockKind::head);
  const std::int64_t words = list.split(model.vocabulary);
  const std::int64_t logits = words * sampled_bytes / list.element();
  all.norm(OpKind::norm, all.own(), model.hidden, {});
  list.linear(OpKind::head, list.all(), words, model.hidden, {});
  list.memory(OpKind::loss, list.all(), {2 * logits, logits, 0, 0}, {});
  BlockSteps steps = all.take();
  for (BlockStep& step : list.take().steps) steps.steps.push_back(std::move(step));
  return steps;
}

}  // namespace

void StepList::linear(OpKind kind, const std::vector<std::int64_t>& rows, std::int64_t n,
                      std::int64_t k, const Recompute& again_by) {
  step({kind, GroupedGemm{rows, n, k, gemm_type_}, GroupedGemm{rows, k, n, gemm_type_},
        GroupedGemm{rows, k, n, kept_type_}, again_by});
}

void StepList::memory(OpKind kind, std::int64_t rows, const Widths& widths,
                      const Recompute& again_by) {
  const auto moved = [&](std::int64_t read, std::int64_t written) {
    return MemoryBound{Bytes(rows * read * element_), Bytes(rows * written * element_)};
  };
  step({kind, moved(widths.read, widths.written), moved(widths.grad_read, widths.grad_written),
        MemoryBound{}, again_by});
}

void StepList::residual(std::int64_t hidden, const Recompute& again_by) {
  if (streams_ > 1) {
    const std::int64_t all = streams_ * hidden;
    // Mixed with the block's sum, then read for the next block; backward all of that and gradients.
    memory(OpKind::norm, own_,
           {2 * all + hidden, all + hidden, 4 * all + 2 * hidden, 2 * all + hidden}, again_by);
    return;
  }
  if (serves_) return;
  memory(OpKind::norm, own_, {2 * hidden, hidden, 2 * hidden, hidden}, again_by);
}

void StepList::norm(OpKind kind, std::int64_t rows, std::int64_t width, const Recompute& again_by) {
  const std::int64_t stream = serves_ && kind == OpKind::norm ? width : 0;
  memory(kind, rows, {width + stream, width + stream, 2 * width, width}, again_by);
}

bool starts(const MoeModel& model, int layer) { return layer == 0 || layer >= model.layers; }

int first_with_same(const MoeModel& model, int layer, BlockKind block, const GemmTypes& types) {
  const bool mixes = block == BlockKind::attention || block == BlockKind::mamba;
  const auto traits = [&](int of) {
    const int kind = kind_of_layer(model, of);
    const auto* shape = block == BlockKind::attention ? &*model.attention->shape : nullptr;
    return std::tuple(types.of(block, of), types.of(GemmPart::scores, of),
                      mixes && starts(model, of), shape != nullptr && shape->is_full(kind),
                      shape != nullptr ? shape->ratio_of(kind) : 0);
  };
  int first = 0;
  while (traits(first) != traits(layer)) ++first;
  return first;
}

BlockSteps steps_of(const MoeModel& model, int layer, BlockKind block, const BlockShard& shard) {
  require_whole(model);
  StepList list(model, shard, layer, block);
  switch (block) {
    case BlockKind::embedding:
      return embedding_steps(model, list);
    case BlockKind::attention:
      if (shard.served) {
        add_served_attention(list, model, layer, shard);
      } else {
        add_attention(list, model, layer, shard);
      }
      return list.take();
    case BlockKind::mamba:
      if (shard.served) {
        add_served_mamba(list, model, *shard.served);
      } else {
        add_mamba(list, model, layer);
      }
      return list.take();
    case BlockKind::dense_ffn:
      return dense_steps(model, list);
    case BlockKind::moe:
      return moe_steps(model, layer, shard, list);
    case BlockKind::mtp:
      return mtp_steps(model, list);
    case BlockKind::head:
      return shard.served ? served_head_steps(model, shard) : head_steps(model, list);
  }
  return {};
}

}  // namespace moesim
