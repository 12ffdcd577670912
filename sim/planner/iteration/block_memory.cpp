// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/block_memory.h"

#include <algorithm>
#include <numeric>

namespace moesim {
namespace {

/// Elements of the largest input and output of one of a block's products.
std::int64_t largest_product(const std::vector<BlockKernel>& kernels) {
  std::int64_t most = 0;
  for (const BlockKernel& made : kernels) {
    if (const auto* gemm = std::get_if<GroupedGemm>(&made.kernel)) {
      for (const std::int64_t rows : gemm->m) most = std::max(most, rows * (gemm->n + gemm->k));
    } else if (const auto* scores = std::get_if<FusedAttention>(&made.kernel)) {
      const AttentionHeads& heads = scores->shape;
      const std::int64_t width = std::int64_t{heads.heads} * (heads.qk_width + heads.v_width) +
                                 std::int64_t{heads.kv_heads} * (heads.qk_width + heads.v_width);
      most = std::max(most, scores->queries * width);
    }
  }
  return most;
}

PassBytes bytes_of(const StageSpace& stage, const HeldBlock& held) {
  const MoeModel& model = stage.model();
  const BlockShard& shard = stage.shard();
  const std::int64_t element = size_of(model.activations);
  const std::int64_t all = shard.tokens * model.hidden * element;
  const std::int64_t own = shard.own_tokens() * model.hidden * element;
  PassBytes bytes;
  const std::int64_t gathered = shard.tp > 1 ? all : 0;  // input of products, by the tensor group
  if (stage.options().serves()) {                        // nothing is kept for a backward pass
    bytes.forward = Bytes(gathered + all);
    return bytes;
  }
  bytes.waiting = kept_activations(model, held.layer, held.block, shard, {});
  const IterationSpec& spec = stage.options().spec;
  bytes.kept = kept_activations(model, held.layer, held.block, shard, spec.recompute);
  bytes.again = bytes.waiting + bytes.kept * -1;
  bytes.moved =
      moved_activations(model, held.layer, held.block, shard, spec.recompute, spec.offload);
  bytes.kept += bytes.moved * -1;
  if (held.block == BlockKind::embedding) {
    bytes.forward = Bytes(all);
    return bytes;
  }
  if (held.block == BlockKind::head) {  // the gradient of the logits takes the place of the logits
    bytes.forward = Bytes(gathered);
    bytes.backward = Bytes(gathered + all);
    return bytes;
  }
  bytes.forward = Bytes(gathered + all);
  const auto product = largest_product(forward_kernels(model, held.layer, held.block, shard));
  bytes.backward = Bytes(gathered + own + product * element);
  return bytes;
}

/// What ZeRO gathers for a block at work (from 3 on its weights), and gradients of its own that are
/// not yet handed out (from 2 on).
void add_shared(PassBytes& bytes, const Spec& options, Bytes weights, Bytes gradients) {
  if (options.spec.zero > 2) bytes.gathered += weights;
  if (options.spec.zero > 1) bytes.backward += gradients;
}

/// That the gate chose, on each of the `etp` GPUs with parts of an expert: what a capacity drops
/// makes no buffer smaller.
double mean_rows(const ReplayedLayer& layer, std::size_t gpus, int etp) {
  double rows = static_cast<double>(layer.work().dropped * etp);
  for (GpuId gpu(0); gpu.index() < gpus; ++gpu.value) {
    for (const std::int64_t of_slot : layer.computed(gpu)) rows += static_cast<double>(of_slot);
  }
  return rows / static_cast<double>(gpus);
}

/// The experts' buffer has one shape: its rows are there while the block works. What is kept of
/// them is copied to the stash.
void put_in_stash(PassBytes& bytes, const PagedStash& stash, std::int64_t rows, double mean,
                  Bytes row) {
  bytes.kept = Bytes(0);
  bytes.paged = stash.paged(rows);
  bytes.mean = mean;
  const Bytes buffer = row * stash.buffer_rows(mean);
  bytes.forward += buffer;
  bytes.backward += buffer;
}

}  // namespace

std::vector<HeldBlock> blocks_of(const StagePart& part, const MoeModel& model) {
  const auto layer = [&](int number) {
    const LayerBlocks in = blocks_of_layer(model, number);
    std::vector<HeldBlock> blocks;
    if (in.mixer) blocks.push_back({number, *in.mixer});
    if (in.ffn) blocks.push_back({number, *in.ffn});
    return blocks;
  };
  switch (part.kind) {
    case StagePartKind::embedding:
      return {{0, BlockKind::embedding}};
    case StagePartKind::head:
      return {{0, BlockKind::head}};
    case StagePartKind::mtp: {
      const int number = model.layers + part.number;
      std::vector<HeldBlock> blocks = layer(number);
      blocks.insert(blocks.begin(), {number, BlockKind::mtp});
      return blocks;
    }
    case StagePartKind::layer:
      return layer(part.number);
  }
  return {};
}

std::vector<ChunkBlock> blocks_of(const ChunkParts& chunk) {
  const MoeModel& model = chunk.stage.model();
  std::vector<ChunkBlock> blocks;
  for (const StagePart& part : chunk.parts) {
    if (!chunk.stage.runs(part.kind, 0)) continue;
    for (const HeldBlock& held : blocks_of(part, model)) {
      ChunkBlock block{held, {}, -1};
      if (chunk.whole) {
        const BlockParameters p = block_parameters(model, held.layer, held.block);
        const std::int64_t own = p.split / chunk.stage.shard().tp + p.whole;
        const Spec& options = chunk.stage.options();
        block.bytes = bytes_of(chunk.stage, held);
        add_shared(block.bytes, options, bytes_of(own, model.other_weights()),
                   Bytes(own * options.state.gradient));
      }
      if (held.block == BlockKind::moe) block.moe = chunk.of(0).index_of(held.layer);
      if (chunk.whole || block.moe >= 0) blocks.push_back(block);
    }
  }
  // Whole layers are computed again from their input at once.
  if (chunk.stage.options().spec.recompute.has(RecomputeModule::full)) {
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      const bool same_layer = blocks[i].held.layer == blocks[i - 1].held.layer &&
                              blocks[i - 1].held.block == BlockKind::attention;
      if (same_layer) blocks[i].bytes.backward += blocks[i - 1].bytes.again;
    }
  }
  return blocks;
}

Bytes kept_expert_row(const StageSpace& stage, DataType kept) {
  const auto etp = static_cast<int>(stage.groups(ParallelAxis::etp).front().size());
  return kept_expert_activations(stage.model(), 1, etp, kept, stage.options().spec.recompute);
}

Bytes moved_expert_row(const StageSpace& stage, DataType kept) {
  const auto etp = static_cast<int>(stage.groups(ParallelAxis::etp).front().size());
  const IterationSpec& spec = stage.options().spec;
  return moved_expert_activations(stage.model(), 1, etp, kept, spec.recompute, spec.offload);
}

std::vector<std::vector<PassBytes>> expert_bytes(const StageSpace& stage,
                                                 const ChunkLayers& layers) {
  const MoeModel& model = stage.model();
  const auto etp = static_cast<int>(stage.groups(ParallelAxis::etp).front().size());
  const std::int64_t element = size_of(model.activations);
  const std::int64_t ffn = (model.expert_ffn + etp - 1) / etp, width = model.routed_width();
  const std::int64_t inner = std::max(1, model.expert_matrices - 1) * ffn;
  std::vector<std::vector<PassBytes>> result;
  for (const ReplayedLayer& replayed : layers.replayed) {
    const LayerWork& work = replayed.work();
    const DataType kept = stage.shard().gemm_types.of(GemmPart::experts, work.number, Role::wgrad);
    const Bytes row = kept_expert_row(stage, kept), moved_row = moved_expert_row(stage, kept);
    const Bytes whole_row = kept_expert_activations(model, 1, etp, kept, {});
    const auto memory = memory_of_experts(work, stage.expert_model(), stage.options().state);
    const bool shared = work.decision.gradients == GradientLayout::summed;  // by itself
    auto& of_layer = result.emplace_back(work.counts.gpus());
    const auto& stash = stage.options().spec.stash;
    const double mean = stash ? mean_rows(replayed, work.counts.gpus(), etp) : 0;
    for (GpuId gpu(0); gpu.index() < of_layer.size(); ++gpu.value) {
      const auto of_slots = replayed.computed(gpu);
      const std::int64_t rows = std::accumulate(of_slots.begin(), of_slots.end(), std::int64_t{0});
      const std::int64_t packed = replayed.packed()[gpu.index()];
      const std::int64_t arrived = replayed.gathered()[gpu.index()];
      PassBytes& bytes = of_layer[gpu.index()];
      const bool keeps = !stage.options().serves();
      bytes.moved = moved_row * (keeps ? rows : 0);
      bytes.kept = row * (keeps ? rows : 0) + bytes.moved * -1;
      bytes.again = (whole_row + row * -1) * rows;
      const std::int64_t moved = std::max(packed, rows) + arrived;
      bytes.waiting = (whole_row + Bytes(width * element)) * rows;
      bytes.forward = Bytes(moved * width * element);
      bytes.backward = Bytes(std::max(moved * width, rows * (width + inner)) * element);
      if (stash) {
        stash->check_buffer(rows, mean, work.number);
        put_in_stash(bytes, *stash, rows, mean, row);
      }
      const ExpertMemory& experts = memory[gpu.index()];
      bytes.gathered = experts.gathered;
      if (!shared) add_shared(bytes, stage.options(), experts.weights, experts.gradients);
    }
  }
  return result;
}

}  // namespace moesim
