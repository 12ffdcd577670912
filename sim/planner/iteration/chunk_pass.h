// SPDX-License-Identifier: Apache-2.0
// One microbatch in the layers that a chunk of a pipeline stage holds: its passes, cut into pieces
// that those of another microbatch can go between.
#pragma once

#include <functional>
#include <vector>

#include "sim/planner/iteration/block_ops.h"
#include "sim/planner/iteration/host_copies.h"
#include "sim/planner/iteration/optimizer_ops.h"
#include "sim/planner/iteration/stage_layers.h"
#include "sim/planner/parallel/layer_layout.h"
#include "sim/planner/pipeline/layer/combined_layers.h"

namespace moesim {

/// A part of a layer's pass. Layers without experts have no dispatch and no combine. In the
/// backward pass the combine comes first; `attention` is all that is computed before the dispatch
/// forward, and after its gradients have come back.
struct PassPiece {
  LayerPart part;
  std::function<void()> add;
};

/// The block of the embedding, or of the head.
constexpr BlockKind edge_block(StagePartKind kind) {
  return kind == StagePartKind::embedding ? BlockKind::embedding : BlockKind::head;
}

/// A pass through a chunk.
struct PassPieces {
  std::function<void()> begin;
  std::vector<std::vector<PassPiece>> layers;  // [layer of the chunk], its pieces in their order
  std::function<void()> end;
};

/// What the passes of one chunk share.
struct ChunkParts {
  const StageSpace& stage;
  BlockOps& blocks;
  const Schedule& schedule;
  std::vector<ChunkLayers*> microbatches = {};  // that differ: its MoE layers in each
  int chunk = 0;
  std::vector<StagePart> parts =
      {};                        // of the model, in their order; without layers that are left out
  bool whole = true;             // whether the model says what is around its experts
  OptimizerOps* sums = nullptr;  // where the iteration ends with an update
  StashCopies* stash = nullptr;  // of the stage, if there is a paged stash
  HostCopies* copies = nullptr;  // of the stage, if something waits in the memory of hosts
  std::set<std::pair<int, int>> keeping_last_layer = {};

  ChunkLayers& of(int microbatch) const {
    return *microbatches[static_cast<std::size_t>(microbatch) % microbatches.size()];
  }
};

class ChunkPass {
 public:
  /// `chunk` must outlive it. `weights_apart`: weight gradients are a pass of their own.
  ChunkPass(const ChunkParts& chunk, int microbatch, bool weights_apart);
  ChunkPass(const ChunkPass&) = delete;

  /// The next pass starts when these have ended.
  void require(const std::vector<OpId>& ops) { chain_.begin_after(ops); }
  /// What the next pass of the microbatch waits for: not the weight gradients that are apart.
  Mark mark() const { return chain_.mark(); }
  /// All that has been added.
  Mark end() const;
  bool weights_apart() const { return weights_apart_; }
  /// No other microbatch adds to the chunk's gradients: they are summed as they are done.
  void sums_gradients() { last_ = true; }
  /// Experts that change places, before the first microbatch.
  void migrate() { issue_migrations(ops_); }

  PassPieces forward();
  PassPieces backward();
  /// The weight gradients of a backward pass that left them out.
  PassPieces weight_gradients();

 private:
  struct Layer {
    int number = 0;
    int moe = -1;          // index into the chunk's MoE layers; below 0: no MoE layer
    std::size_t part = 0;  // index into the chunk's parts
    LayerBlocks blocks;
  };
  LayerPass pass(const Layer& layer, Pass way) const;
  void block(Pass way, int layer, BlockKind kind);
  void mixer(const Layer& layer, Pass way);
  void dense_ffn(const Layer& layer, Pass way);
  std::vector<int> runs_of(StagePartKind kind, Pass way) const;
  void around(StagePartKind kind, Pass way);
  void begin_backward_of(const Layer& layer);
  void around_shared(const Layer& layer, Role role, bool gather);
  bool recomputes(RecomputeModule module) const;
  void compute_again(const Layer& layer);
  void join_before(std::size_t index);
  PassPieces empty_pass() const {
    return {{}, std::vector<std::vector<PassPiece>>(list_.size()), {}};
  }
  void at_edge(Point point, Pass way);
  bool stays(int layer, MovedPart part) const;
  void store_block(int layer, BlockKind kind);
  void store_rows(const Layer& layer);
  std::vector<OpId> load(int layer, MovedPart part);
  void end_of(MovedPart part);
  void sum_gradients(OpChain& chain, const StagePart& part);
  void require_weights(std::size_t part, Pass way);

  const ChunkParts& chunk_;
  WorkCell cell_;
  bool weights_apart_, last_ = false;
  std::vector<Layer> list_;
  mutable OpChain chain_;
  mutable LayerOps ops_;
  // Weight gradients that are apart: on the stream of kernels they follow what they need, and no
  // exchange waits for them.
  OpChain apart_chain_;
  LayerOps apart_ops_;
};

/// Adds a pass by itself, its layers first to last or the other way.
void add_pass(const PassPieces& pass, Pass way);
/// Adds a forward merged with the backward of another microbatch: the tokens of one travel while
/// the other computes. `weights`: of the backward, if they are apart; else null.
void add_merged(const PassPieces& forward, const PassPieces& backward, const PassPieces* weights);
/// Adds the forward passes of the parts of a batch, of as many layers each: while the tokens of one
/// part travel, the next one computes (DeepSeek-V3, arXiv 2412.19437, section 3.4; SGLang's
/// two-batch overlap).
void add_interleaved(const std::vector<PassPieces>& parts);

}  // namespace moesim
