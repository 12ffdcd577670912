// SPDX-License-Identifier: Apache-2.0
// A block as a list of steps, from which follow its kernels, forward, backward and again, and what
// is kept between. Private to sim/model.
#pragma once

#include <vector>

#include "sim/model/blocks.h"

namespace moesim {

inline constexpr RecomputeModule full_layer = RecomputeModule::full;
inline constexpr OpKind projections = OpKind::attention_projections;

/// A tensor that some backward kernel reads, and the modules whose recomputation replaces it.
struct KeptTensor {
  Bytes bytes;
  Recompute dropped_by;
  Offload moved_by = {};  // modules whose inputs it is one of
};

struct BlockStep {
  OpKind kind = OpKind::other;
  Kernel forward;
  Kernel dgrad = MemoryBound{};  // empty: none
  Kernel wgrad = MemoryBound{};
  Recompute again_by;  // modules that run it again
};

struct BlockSteps {
  std::vector<BlockStep> steps;  // in the order of the forward pass
  std::vector<KeptTensor> kept;
};

/// Adds steps and kept tensors; widths are elements of a row on this GPU.
class StepList {
 public:
  /// Of one block in one layer.
  StepList(const MoeModel& model, const BlockShard& shard, int layer, BlockKind block)
      : all_(shard.tokens),
        own_(shard.own_tokens()),
        tp_(shard.tp),
        streams_(model.residual_streams),
        element_(size_of(model.activations)),
        gemm_type_(shard.gemm_types.of(block, layer)),
        kept_type_(shard.gemm_types.of(block, layer, Role::wgrad)),
        serves_(shard.served.has_value()) {}

  std::int64_t all() const { return all_; }  // rows between gather and scatter of the group
  std::int64_t own() const { return own_; }  // rows outside
  int element() const { return element_; }
  std::int64_t split(std::int64_t width) const { return (width + tp_ - 1) / tp_; }

  void linear(OpKind kind, std::int64_t rows, std::int64_t n, std::int64_t k,
              const Recompute& again_by) {
    linear(kind, std::vector{rows}, n, k, again_by);
  }
  /// One product for each number of rows.
  void linear(OpKind kind, const std::vector<std::int64_t>& rows, std::int64_t n, std::int64_t k,
              const Recompute& again_by);
  /// Forward reads and writes these elements per row, as the gradient does.
  struct Widths {
    std::int64_t read = 0, written = 0, grad_read = 0, grad_written = 0;
  };
  void memory(OpKind kind, std::int64_t rows, const Widths& widths, const Recompute& again_by);
  void step(BlockStep step) { result_.steps.push_back(std::move(step)); }
  /// Adds what the block before left to the residual stream; its gradient adds both branches'. A
  /// serving engine adds in the kernel of the norm that follows. Several streams are read, mixed
  /// and written by kernels of their own.
  void residual(std::int64_t hidden, const Recompute& again_by);
  /// Keeps what a block reads between blocks, of all streams.
  void keep_stream(std::int64_t hidden, const Recompute& dropped_by, const Offload& moved_by = {}) {
    keep(own_, hidden * streams_, element_, dropped_by, moved_by);
  }
  bool has_streams() const { return streams_ > 1; }
  void norm(OpKind kind, std::int64_t rows, std::int64_t width, const Recompute& again_by);

  void keep(std::int64_t rows, std::int64_t width, int element, const Recompute& dropped_by,
            const Offload& moved_by = {}) {
    result_.kept.push_back({Bytes(rows * width * element), dropped_by, moved_by});
  }
  /// The input of a GEMM, which keeps it in the type of its weight gradient.
  void keep_input(std::int64_t rows, std::int64_t width, const Recompute& dropped_by,
                  const Offload& moved_by = {}) {
    keep_input(rows, width, kept_type_, dropped_by, moved_by);
  }
  void keep_input(std::int64_t rows, std::int64_t width, DataType type, const Recompute& dropped_by,
                  const Offload& moved_by = {}) {
    result_.kept.push_back({bytes_of(rows * width, type), dropped_by, moved_by});
  }
  /// What keeps it as it is and a GEMM that keeps a copy in its own type, if it has another.
  void keep_both(std::int64_t rows, std::int64_t width, const Recompute& dropped_by,
                 const Offload& moved_by = {}) {
    keep(rows, width, element_, dropped_by, moved_by);
    if (bytes_per_element(kept_type_) != element_) keep_input(rows, width, dropped_by, moved_by);
  }
  BlockSteps take() { return std::move(result_); }

 private:
  std::int64_t all_, own_;
  int tp_, streams_, element_;
  DataType gemm_type_, kept_type_;
  bool serves_;
  BlockSteps result_;
};

/// The attention of a serving pass: fused norms and a cache; no backward pass.
void add_served_attention(StepList& list, const MoeModel& model, int layer,
                          const BlockShard& shard);
void add_served_mamba(StepList& list, const MoeModel& model, const ServedTokens& served);
void add_attention(StepList& list, const MoeModel& model, int layer, const BlockShard& shard);
void add_mamba(StepList& list, const MoeModel& model, int layer);
/// What chooses keys, and attention to compressed keys but for its norm; forward and backward.
void add_indexer(StepList& list, const MoeModel& model, int layer, double attended);
void add_compressed(StepList& list, const MoeModel& model, int layer);
/// The output projection in groups of heads.
void add_grouped_output(StepList& list, const MoeModel& model);
/// The same in a serving pass.
void add_served_indexer(StepList& list, const MoeModel& model, int layer,
                        const ServedTokens& served);
void add_served_compressed(StepList& list, const MoeModel& model, int layer,
                           const ServedTokens& served);
/// The scores of a kernel that knows the cache.
void add_served_scores(StepList& list, const AttendedTokens& of, const AttentionHeads& heads);
/// Whether a layer is the first behind an embedding or a projection: no block left it a sum to add.
bool starts(const MoeModel& model, int layer);
BlockSteps steps_of(const MoeModel& model, int layer, BlockKind block, const BlockShard& shard);

}  // namespace moesim
