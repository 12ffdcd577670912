// SPDX-License-Identifier: Apache-2.0
// Bytes of one microbatch in the blocks of a chunk: what they keep, and what they take while they
// work. Formulas: docs/memory-of-iterations.md.
#pragma once

#include <vector>

#include "sim/model/blocks.h"
#include "sim/planner/iteration/chunk_pass.h"

namespace moesim {

/// Bytes of one block, or of the routed experts of one GPU in one layer.
struct PassBytes {
  Bytes kept;      // from the forward to the backward pass
  Bytes moved;     // in between in the memory of the host, unless it is of a last layer that stays
  Bytes again;     // more that is there again while the backward pass runs
  Bytes waiting;   // from input gradients to weight gradients if these are apart
  Bytes forward;   // in addition to what is kept, while it works
  Bytes backward;  // in addition to what is kept and there again
  Bytes gathered;  // parameters of other GPUs, and their gradients
  // Rows that a paged stash keeps in place of `kept`: in whole pages, and the mean of all GPUs.
  std::int64_t paged = 0;
  double mean = 0;
  bool operator==(const PassBytes&) const = default;
};

/// A block of a chunk in the order of the forward pass.
struct ChunkBlock {
  HeldBlock held;
  PassBytes bytes;  // on every GPU alike
  int moe = -1;     // index into the chunk's MoE layers; below 0: it has no routed experts
};

/// The blocks of a part of the model.
std::vector<HeldBlock> blocks_of(const StagePart& part, const MoeModel& model);
std::vector<ChunkBlock> blocks_of(const ChunkParts& chunk);

/// What routed experts keep of a row from the forward to the backward pass.
Bytes kept_expert_row(const StageSpace& stage, DataType kept);

/// What of it waits in the memory of the host.
Bytes moved_expert_row(const StageSpace& stage, DataType kept);

/// [MoE layer of the chunk][GPU of the stage] of a microbatch with these rows.
std::vector<std::vector<PassBytes>> expert_bytes(const StageSpace& stage,
                                                 const ChunkLayers& layers);

}  // namespace moesim
