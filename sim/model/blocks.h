// SPDX-License-Identifier: Apache-2.0
// What one GPU computes and keeps for one block of a model: kernels by kind, forward and backward,
// and bytes of activations. Routed and shared experts, router, permutation and dispatch belong to
// the planner (sim/planner); the block `moe` has only its norm here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/model/gemm_types.h"
#include "sim/model/kernel.h"
#include "sim/model/offload.h"
#include "sim/model/op_kind.h"
#include "sim/model/parameters.h"
#include "sim/model/recompute.h"
#include "sim/model/served_tokens.h"

namespace moesim {

/// What `part` of an op's key says about it: its block, as blocks of a layer share kinds, and its
/// place among the block's kernels.
constexpr int part_in(BlockKind block) { return static_cast<int>(block) << 8; }
constexpr BlockKind block_in(int part) { return static_cast<BlockKind>(part >> 8); }

/// The share of one GPU.
struct BlockShard {
  std::int64_t tokens = 0;        // of a tensor-parallel group: micro batch x sequence / cp
  std::int64_t attended = 0;      // mean keys per query under the causal mask, (sequence + 1) / 2
  int tp = 1;                     // tensor-parallel GPUs
  bool sequence_parallel = true;  // norms and residuals of tokens / tp on each of them
  GemmTypes gemm_types = {};      // of products and of the rows that they keep
  std::optional<ServedTokens> served = {};  // a pass of serving: forward kernels only

  std::int64_t own_tokens() const;  // that norms and residuals work on
};

/// Bytes that a GPU sends to each of those that share the keys of its sequences: before the scores,
/// queries of its heads and its part of the cached keys of prompts; after them, its part of the
/// results of the other's heads and of the sums of exponentials.
struct SharedKeys {
  Bytes queries, results;
};
SharedKeys shared_keys(const MoeModel& model, const BlockShard& shard);

struct BlockKernel {
  OpKind kind = OpKind::other;
  Kernel kernel;
};

/// The shard of a serving pass: its tokens, without sequence parallelism.
BlockShard serving_shard(ServedTokens served, int tp, const GemmTypes& types);

// In launch order. `layer` is a number of the model, from 0; multi-token-prediction layers continue
// from model.layers. The wgrad of a GEMM has the shape of its dgrad: rows, then the weights turned.
std::vector<BlockKernel> forward_kernels(const MoeModel& model, int layer, BlockKind block,
                                         const BlockShard& shard);
/// Gradients by inputs: what the block before waits for.
std::vector<BlockKernel> dgrad_kernels(const MoeModel& model, int layer, BlockKind block,
                                       const BlockShard& shard);
/// Weight gradients, which nobody waits for but the optimizer.
std::vector<BlockKernel> wgrad_kernels(const MoeModel& model, int layer, BlockKind block,
                                       const BlockShard& shard);
/// The forward kernels that the backward pass runs again, before its own.
std::vector<BlockKernel> recomputed_kernels(const MoeModel& model, int layer, BlockKind block,
                                            const BlockShard& shard, const Recompute& recompute);

/// The modules of a set that run nothing again in a model whose layers are all described, and let
/// nothing be dropped.
std::vector<std::string> without_effect(const Recompute& recompute, const MoeModel& model);

/// The first layer on which this block has the same kernels, as `layer` or before.
int first_with_same(const MoeModel& model, int layer, BlockKind block, const GemmTypes& types = {});

/// Bytes that one GPU keeps of one microbatch between forward and backward, without the routed
/// experts' rows; shared experts and router with them.
Bytes kept_activations(const MoeModel& model, int layer, BlockKind block, const BlockShard& shard,
                       const Recompute& recompute);
/// Bytes of the routed experts of one layer for `rows` (token, expert) rows that one GPU computes,
/// each expert divided over `etp` GPUs, the inputs of their products in `kept`.
Bytes kept_expert_activations(const MoeModel& model, std::int64_t rows, int etp, DataType kept,
                              const Recompute& recompute);

/// Of kept_activations, what waits in the memory of the host instead. Tensors of less than
/// Megatron-LM's --min-offloaded-tensor-size stay: statistics of the softmax, weights of the gate.
Bytes moved_activations(const MoeModel& model, int layer, BlockKind block, const BlockShard& shard,
                        const Recompute& recompute, const Offload& offload);
/// The same of kept_expert_activations.
Bytes moved_expert_activations(const MoeModel& model, std::int64_t rows, int etp, DataType kept,
                               const Recompute& recompute, const Offload& offload);
/// The modules of a set that move nothing of a model whose layers are all described.
std::vector<std::string> without_effect(const Offload& offload, const MoeModel& model,
                                        const Recompute& recompute);

/// A block of a layer that a GPU holds.
struct HeldBlock {
  int layer = 0;
  BlockKind block = BlockKind::embedding;
};
/// Bytes of the placeholders that GEMMs hand on as gradients of their weights if they add to the
/// main gradients themselves (Megatron's gradient accumulation fusion): one of each weight's
/// shape, whatever the number of layers.
Bytes gradient_placeholders(const MoeModel& model, const std::vector<HeldBlock>& blocks,
                            const BlockShard& shard, int etp);

}  // namespace moesim
