// SPDX-License-Identifier: Apache-2.0
#include "sim/model/blocks.h"

#include <set>
#include <utility>

#include "sim/model/block_steps.h"
#include "sim/model/weight_matrices.h"

namespace moesim {
namespace {

using KernelPart = Kernel BlockStep::*;

/// Kernels of the steps from `first` to `last` that are wanted and have such a kernel.
template <class Iterator, class Wanted>
std::vector<BlockKernel> kernels_of(Iterator first, Iterator last, KernelPart part,
                                    const Wanted& wanted) {
  std::vector<BlockKernel> kernels;
  for (; first != last; ++first) {
    const Kernel& kernel = (*first).*part;
    if (wanted(*first) && !is_empty(kernel)) kernels.push_back({first->kind, kernel});
  }
  return kernels;
}

constexpr auto every_step = [](const BlockStep&) { return true; };

std::vector<BlockKernel> backward_kernels(const BlockSteps& block, KernelPart part) {
  return kernels_of(block.steps.rbegin(), block.steps.rend(), part, every_step);
}

}  // namespace

std::int64_t BlockShard::own_tokens() const {
  return sequence_parallel ? (tokens + tp - 1) / tp : tokens;
}

BlockShard serving_shard(ServedTokens served, int tp, const GemmTypes& types) {
  BlockShard shard{served.tokens(), 0, tp, false, types, {}};
  shard.served = std::move(served);
  return shard;
}

std::vector<BlockKernel> forward_kernels(const MoeModel& model, int layer, BlockKind block,
                                         const BlockShard& shard) {
  const auto steps = steps_of(model, layer, block, shard).steps;
  return kernels_of(steps.begin(), steps.end(), &BlockStep::forward, every_step);
}

std::vector<BlockKernel> dgrad_kernels(const MoeModel& model, int layer, BlockKind block,
                                       const BlockShard& shard) {
  return backward_kernels(steps_of(model, layer, block, shard), &BlockStep::dgrad);
}

std::vector<BlockKernel> wgrad_kernels(const MoeModel& model, int layer, BlockKind block,
                                       const BlockShard& shard) {
  return backward_kernels(steps_of(model, layer, block, shard), &BlockStep::wgrad);
}

std::vector<BlockKernel> recomputed_kernels(const MoeModel& model, int layer, BlockKind block,
                                            const BlockShard& shard, const Recompute& recompute) {
  const auto steps = steps_of(model, layer, block, shard).steps;
  return kernels_of(steps.begin(), steps.end(), &BlockStep::forward,
                    [&](const BlockStep& step) { return recompute.covers(step.again_by); });
}

Bytes kept_activations(const MoeModel& model, int layer, BlockKind block, const BlockShard& shard,
                       const Recompute& recompute) {
  Bytes kept;
  for (const KeptTensor& tensor : steps_of(model, layer, block, shard).kept) {
    if (!recompute.covers(tensor.dropped_by)) kept += tensor.bytes;
  }
  return kept;
}

namespace {

/// Whether a block runs again, or drops, anything because of these modules.
bool reaches(const Recompute& modules, const MoeModel& model, int layer,
             std::optional<BlockKind> block) {
  const BlockShard shard{.tokens = 1, .attended = 1};
  if (!block) return false;
  return !recomputed_kernels(model, layer, *block, shard, modules).empty() ||
         kept_activations(model, layer, *block, shard, modules) <
             kept_activations(model, layer, *block, shard, {});
}

bool has_effect(RecomputeModule module, const MoeModel& model) {
  if (module == RecomputeModule::moe_act) return model.experts > 0;  // the planner's
  for (int layer = 0; layer < model.layers; ++layer) {
    const LayerBlocks blocks = blocks_of_layer(model, layer);
    if (reaches({module}, model, layer, blocks.mixer)) return true;
    if (reaches({module}, model, layer, blocks.ffn)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> without_effect(const Recompute& recompute, const MoeModel& model) {
  std::vector<std::string> names;
  if (recompute.has(RecomputeModule::full) || !model.missing_of_whole().empty()) return names;
  for (std::size_t m = 0; m < recompute_module_names().size(); ++m) {
    const auto module = static_cast<RecomputeModule>(m);
    if (recompute.has(module) && !has_effect(module, model)) {
      names.push_back(recompute_module_names()[m]);
    }
  }
  return names;
}

Bytes kept_expert_activations(const MoeModel& model, std::int64_t rows, int etp, DataType kept,
                              const Recompute& recompute) {
  if (recompute.has(RecomputeModule::moe)) return Bytes(0);
  constexpr int weight_bytes =
      4;  // a row's gate weight, fp32, with which the activation multiplies
  const std::int64_t ffn = (model.expert_ffn + etp - 1) / etp;
  const std::int64_t row =
      weight_bytes + ffn * (model.expert_matrices - 1) * size_of(model.activations);
  const std::int64_t inputs =
      model.routed_width() + (recompute.has(RecomputeModule::moe_act) ? 0 : ffn);
  return Bytes(rows * row) + bytes_of(rows * inputs, kept);
}

Bytes moved_activations(const MoeModel& model, int layer, BlockKind block, const BlockShard& shard,
                        const Recompute& recompute, const Offload& offload) {
  Bytes moved;
  if (offload.empty()) return moved;
  for (const KeptTensor& tensor : steps_of(model, layer, block, shard).kept) {
    if (!recompute.covers(tensor.dropped_by) && offload.has_any(tensor.moved_by)) {
      moved += tensor.bytes;
    }
  }
  return moved;
}

Bytes moved_expert_activations(const MoeModel& model, std::int64_t rows, int etp, DataType kept,
                               const Recompute& recompute, const Offload& offload) {
  Bytes moved;
  if (recompute.has(RecomputeModule::moe)) return moved;
  const bool all = offload.has(OffloadModule::fused_group_mlp);
  const std::int64_t ffn = (model.expert_ffn + etp - 1) / etp;
  if (all || offload.has(OffloadModule::expert_fc1)) {
    moved += bytes_of(rows * model.routed_width(), kept);
  }
  if (all || offload.has(OffloadModule::moe_act)) {
    moved += Bytes(rows * ffn * (model.expert_matrices - 1) * size_of(model.activations));
  }
  if (all) moved += bytes_of(rows * ffn, kept);
  return moved;
}

namespace {

bool moves_any(OffloadModule module, const MoeModel& model, const Recompute& recompute) {
  if (moved_expert_activations(model, model.experts > 0 ? 1 : 0, 1, DataType::bf16, recompute,
                               {module}) > Bytes(0)) {
    return true;
  }
  const BlockShard shard{.tokens = 1, .attended = 1};
  const auto moves = [&](int layer, std::optional<BlockKind> block) {
    return block && moved_activations(model, layer, *block, shard, recompute, {module}) > Bytes(0);
  };
  for (int layer = 0; layer < model.layers; ++layer) {
    const LayerBlocks blocks = blocks_of_layer(model, layer);
    if (moves(layer, blocks.mixer) || moves(layer, blocks.ffn)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> without_effect(const Offload& offload, const MoeModel& model,
                                        const Recompute& recompute) {
  std::vector<std::string> names;
  if (!model.missing_of_whole().empty()) return names;
  for (std::size_t m = 0; m < offload_module_names().size(); ++m) {
    const auto module = static_cast<OffloadModule>(m);
    if (offload.has(module) && !moves_any(module, model, recompute)) {
      names.push_back(offload_module_names()[m]);
    }
  }
  return names;
}

Bytes gradient_placeholders(const MoeModel& model, const std::vector<HeldBlock>& blocks,
                            const BlockShard& shard, int etp) {
  std::set<WeightMatrix> shapes;
  for (const HeldBlock& held : blocks) {
    const auto own = weight_matrices(model, held, shard);
    shapes.insert(own.begin(), own.end());
    if (held.block != BlockKind::moe) continue;
    const auto experts = expert_matrices(model, etp);
    shapes.insert(experts.begin(), experts.end());
  }
  Bytes total;
  for (const WeightMatrix& each : shapes) {
    total += bytes_of(each.parameters(), model.weights);
  }
  return total;
}

}  // namespace moesim
