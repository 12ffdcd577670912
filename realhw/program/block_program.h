// SPDX-License-Identifier: Apache-2.0
// One microbatch in the blocks of a chunk while it is compiled: what flows between blocks, and the
// calls that the plan's kernels become.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "realhw/program/held_parameters.h"
#include "realhw/program/layer_program.h"
#include "realhw/program/ring_program.h"

namespace moesim {

/// A matrix of float32 with a row per token of the microbatch, or per token that the rank has of it
/// between blocks.
struct RowMatrix {
  Place at;
  std::int64_t rows = 0, width = 0;
  OpId made_by{-1};
};

/// What the next block takes: the sum of matrices and of what the routed experts of a layer return.
struct RowTotal {
  std::vector<RowMatrix> parts;
  LayerProgram* routed = nullptr;
};

class BlockProgram {
 public:
  using LayerOf = std::function<LayerProgram*(int layer)>;
  /// All must outlive it.
  BlockProgram(Draft& draft, HeldParameters& parameters, const HeldChunk& chunk, int microbatch,
               LayerOf layer_of);
  BlockProgram(BlockProgram&&) = delete;
  ~BlockProgram();

  /// Whether a kernel belongs to a dense block or to shared experts: the others may be scratch.
  static bool computes(const OpKey& key);
  /// Adds the calls of such a kernel. Throws std::runtime_error when the plan's kernels are not the
  /// model's, or need what is not there yet.
  void add_kernel(RankStep& step);
  /// Adds an exchange of the rank's tensor group, with the sums that it needs before.
  void add_exchange(RankStep& step);
  /// Before any op of the backward pass through a layer's experts.
  void enter_experts_backward(int layer);
  /// What arrives from another stage.
  void enter(Pass pass, const RowMatrix& rows) { total(pass) = {{rows}, nullptr}; }
  /// What leaves for another stage, added up in rows from `to` on.
  void leave(Pass pass, RankStep& step, Place to) { add_up(total(pass), pass, step, to); }

 private:
  struct Kept;  // in block_kept.h
  enum class Work {
    look_up,
    residual,
    norm,
    projections,
    head_norms,
    rotary,
    scores,
    output,
    fc1,
    activation,
    fc2,
    head,
    loss
  };

  RowTotal& total(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
  static OpKind kind_of(Work work);
  static DenseTensorId gain_of(BlockKind block);
  std::vector<Work> works(int layer, BlockKind block, Role role) const;
  StagePart part_of(int layer, BlockKind block) const;
  DenseBuffers& buffers(int layer, BlockKind block) {
    return parameters_.dense(part_of(layer, block));
  }
  Kept& kept(int layer, BlockKind block);

  RowMatrix make(const RankStep& step, const char* name, std::int64_t rows, std::int64_t width);
  Place take(const RowMatrix& rows, const RankStep& step) const;
  static Place take(DenseBuffers& held, Place at, const RankStep& step);
  RowMatrix whole(Pass pass) const;
  void add_up(RowTotal& total, Pass pass, RankStep& step, Place to);
  void settle(Pass pass, RankStep& step);
  void check(RankStep& step, const RowMatrix& rows) const;
  void record(int layer, BlockKind block, Pass pass, const RowMatrix& rows);
  RowMatrix multiply(RankStep& step, GroupedProduct::Kind kind, const RowMatrix& a, Place b,
                     std::int64_t width);
  void add_outer(RankStep& step, DenseBuffers& held, DenseTensorId id, const RowMatrix& a,
                 const RowMatrix& b);
  void check_shape(const RankStep& step, const RowMatrix& a, std::int64_t n) const;
  RowMatrix activate(RankStep& step, const RowMatrix& h, std::int64_t ffn);
  RowMatrix activate_gradient(RankStep& step, const RowMatrix& h, const RowMatrix& dout,
                              std::int64_t ffn);
  RowMatrix rotated(RankStep& step, const RowMatrix& from, int way);
  RowMatrix norm(RankStep& step, DenseBuffers& held, DenseTensorId gain, const RowMatrix& x);
  RowMatrix norm_gradient(RankStep& step, DenseBuffers& held, DenseTensorId gain,
                          const RowMatrix& x, const RowMatrix& dout);
  RowMatrix head_norms(RankStep& step, DenseBuffers& held, const RowMatrix& x,
                       const RowMatrix* dout);
  RowMatrix attention(RankStep& step, const RowMatrix& rows, const RowMatrix* dout);
  void add_loss(RankStep& step, Kept& k, bool gradient);
  void forward(Work work, RankStep& step, int layer, BlockKind block);
  void by_inputs(Work work, RankStep& step, int layer, BlockKind block);
  void by_weights(Work work, RankStep& step, int layer, BlockKind block);
  // Of the tensor group, in block_works.cpp.
  std::int64_t of_group(std::int64_t all) const { return all / held_.tp; }
  Place part_of_group(const RowMatrix& all, std::int64_t part) const;
  void exchange_parts(RankStep& step, RingKind kind, const RowMatrix& all);
  RowMatrix gathered(RankStep& step, const RowMatrix& own);
  RowMatrix gathered_gradient(RankStep& step, int layer, BlockKind block);
  RowMatrix scattered(RankStep& step, const RowMatrix& all);
  void gather(RankStep& step, int layer, BlockKind block);
  void scatter(RankStep& step, int layer, BlockKind block);
  void exchange_sums_of_loss(RankStep& step, Kept& k);
  void leave_product(Kept& k, const RowMatrix& product);
  RowMatrix gradient_of_product(const Kept& k) const;
  /// Of words that the rank has; below 0: another rank's.
  std::int64_t own_word(std::int64_t row) const;
  void look_up(RankStep& step, DenseBuffers& held, const RowMatrix& to);
  void add_embedding_gradient(RankStep& step, DenseBuffers& held);
  void add_shared(RankStep& step);
  std::int64_t word(std::int64_t row) const;

  Draft& draft_;
  HeldParameters& parameters_;
  const HeldChunk& chunk_;
  int microbatch_;
  LayerOf layer_of_;
  const HeldIteration& held_;
  HeadShape heads_;  // of the rank
  RowTotal forward_, backward_;
  std::map<std::pair<int, BlockKind>, std::unique_ptr<Kept>> kept_;
};

}  // namespace moesim
