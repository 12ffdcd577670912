// SPDX-License-Identifier: Apache-2.0
// ChunkPass: what leaves for the memory of the host, and comes back.
#include <algorithm>

#include "sim/planner/iteration/block_memory.h"
#include "sim/planner/iteration/chunk_pass.h"

namespace moesim {

/// Whether it is a part of the last layer that has one, and that stays on the GPU.
bool ChunkPass::stays(int layer, MovedPart part) const {
  if (!chunk_.keeping_last_layer.contains({cell_.microbatch, cell_.chunk})) return false;
  const auto has = [&](const Layer& each) {
    return part == MovedPart::attention ? each.blocks.mixer == BlockKind::attention : each.moe >= 0;
  };
  const auto last = std::find_if(list_.rbegin(), list_.rend(), has);
  return last != list_.rend() && last->number == layer;
}

void ChunkPass::store_block(int layer, BlockKind kind) {
  if (chunk_.copies == nullptr || !chunk_.whole) return;
  if (kind != BlockKind::attention && kind != BlockKind::moe) return;
  const MovedPart part = kind == BlockKind::moe ? MovedPart::moe : MovedPart::attention;
  if (stays(layer, part)) return;
  const StageSpace& stage = chunk_.stage;
  const IterationSpec& spec = stage.options().spec;
  const Bytes moved =
      moved_activations(stage.model(), layer, kind, stage.shard(), spec.recompute, spec.offload);
  chunk_.copies->store(chain_, cell_, layer, part,
                       {moved, std::vector<std::int64_t>(stage.everybody().size(), 1)});
}

void ChunkPass::store_rows(const Layer& layer) {
  if (chunk_.copies == nullptr || stays(layer.number, MovedPart::experts)) return;
  const StageSpace& stage = chunk_.stage;
  const DataType kept = stage.shard().gemm_types.of(GemmPart::experts, layer.number, Role::wgrad);
  auto& replayed = chunk_.of(cell_.microbatch).replayed[static_cast<std::size_t>(layer.moe)];
  chunk_.copies->store(chain_, cell_, layer.number, MovedPart::experts,
                       {moved_expert_row(stage, kept), replayed.expert_work().rows});
}

std::vector<OpId> ChunkPass::load(int layer, MovedPart part) {
  if (chunk_.copies == nullptr) return {};
  return chunk_.copies->load(chain_, cell_, layer, part);
}

void ChunkPass::end_of(MovedPart part) {
  if (chunk_.copies != nullptr) chunk_.copies->ended(chain_, part);
}

}  // namespace moesim
