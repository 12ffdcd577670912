// SPDX-License-Identifier: Apache-2.0
// What the experts of one layer on one rank compute. Rows are appended to slots as they arrive, and
// each kernel takes the rows of a slot that it has not taken yet: so a plan may compute in parts.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "realhw/program/draft.h"

namespace moesim {

/// The next rows of a slot that a kernel takes.
struct Piece {
  std::size_t slot = 0;
  std::int64_t first = 0, rows = 0;
};

/// The rows of a slot lie one after the other, in the order in which they are added.
class SlotMatrix {
 public:
  /// `first_row` says where each slot begins, and where the last one ends; it must outlive the
  /// matrix. Memory is taken when the first row is added.
  SlotMatrix(Draft& draft, std::string name, const std::vector<std::int64_t>& first_row,
             std::int64_t width)
      : draft_(draft),
        name_(std::move(name)),
        first_row_(first_row),
        width_(width),
        made_(first_row.size() - 1) {}

  std::int64_t width() const { return width_; }
  Place at(std::size_t slot, std::int64_t row) const {
    return {buffer_, (first_row_[slot] + row) * draft_.row_bytes(width_)};
  }
  /// Throws std::runtime_error when the slot is full.
  void add(std::size_t slot, std::int64_t rows, OpId made_by);
  void add_until(std::size_t slot, std::int64_t end, OpId made_by) {
    add(slot, end - rows(slot), made_by);
  }
  std::int64_t rows(std::size_t slot) const {
    return made_[slot].empty() ? 0 : made_[slot].back().end;
  }
  /// How many rows, from the first one on, an op may use.
  std::int64_t visible(std::size_t slot, OpId op) const;
  /// Adds the check that these rows are finite to the step that made them.
  void check(RankStep& step, const std::vector<Piece>& pieces) const;

 private:
  struct Made {
    std::int64_t end = 0;  // one past the last row that `by` made
    OpId by;
  };

  Draft& draft_;
  std::string name_;
  const std::vector<std::int64_t>& first_row_;
  std::int64_t width_;
  BufferId buffer_{-1};
  std::vector<std::vector<Made>> made_;  // [slot]
};

/// A choice's row: its vector, or its result.
struct ChoiceRow {
  ChoiceId choice;
  Place at;
};

/// The first GEMM of the backward pass.
inline constexpr OpType fc2_input_gradient{OpKind::fc2, Role::dgrad, Pass::backward};

/// Kernels throw std::runtime_error when they would compute rows that are not there yet. Rows
/// beyond those of a padded exchange are zeros. A gradient's row must be where its forward row did,
/// because a product takes both: gradients that come in another order have the forward's rows
/// copied to theirs.
class ExpertProgram {
 public:
  /// `trains`: there is a backward pass. All must outlive it.
  ExpertProgram(Draft& draft, const RoutedLayer& routing, bool trains);
  ExpertProgram(const ExpertProgram&) = delete;

  /// Adds the calls that gather rows, in the order given.
  void add_rows(Pass pass, const std::vector<ChoiceRow>& rows, RankStep& step);
  /// Whether a kernel of this type takes rows that none has gathered yet.
  static bool gathers(const OpType& kernel);
  /// Adds the calls of an expert kernel of the plan. False: it is none.
  bool add_kernel(RankStep& step, bool padded);
  /// Results that no op has taken yet and that `op` may use: outputs of fc2, or gradients by the
  /// input. Without an op: all.
  std::vector<ChoiceRow> take_results(Pass pass, const OpId* op);
  std::vector<SlotGradients> gradients() const;

 private:
  /// A matrix of the forward pass, and the copy of it in the order of the gradients.
  struct Kept {
    SlotMatrix forward, copy;
  };
  /// The choices of a pass, by slot. Below 0: padding.
  using SlotChoices = std::vector<std::vector<ChoiceId>>;
  struct PassRows {
    SlotChoices choices;
    std::vector<std::int64_t> taken;      // [slot] results
    std::vector<std::int64_t> first_row;  // [slot + 1]
  };
  struct ExpertKernel;

  // Rows, in expert_program.cpp.
  PassRows& rows_of(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
  SlotMatrix matrix(const char* name, const PassRows& pass, std::int64_t width);
  std::vector<std::int64_t> first_rows(const OpType& kernel) const;
  void place_parameters(ExpertBuffers& buffers);
  void place_gradients(ExpertBuffers& buffers);
  void add_slot_rows(Pass pass, const std::vector<std::vector<ChoiceRow>>& by_slot, RankStep& step);
  void pad(Pass pass, RankStep& step);
  void find_kept_rows(const std::vector<Piece>& added, RankStep& step);
  std::int64_t forward_row(std::size_t slot, std::int64_t i, OpId op);
  static void copy_rows(Kept& kept, const std::vector<Piece>& pieces,
                        const std::vector<std::vector<std::int64_t>>& from, RankStep& step);

  // Kernels, in expert_kernels.cpp.
  const GroupedGemm* gemm_of(const RankStep& step) const;
  std::vector<Piece> next_pieces(const RankStep& step, const std::vector<std::int64_t>& here);
  std::vector<std::int64_t> visible(const SlotMatrix& matrix, OpId op) const;
  std::vector<std::int64_t> done(const OpType& kernel) const;
  void multiply(RankStep& step, GroupedProduct::Kind kind, const SlotMatrix& a, int matrix,
                SlotMatrix& c);
  void multiply_again(RankStep& step, const OpType& behind, const SlotMatrix& a, int matrix,
                      const SlotMatrix& c);
  void add_product(RankStep& step, GroupedProduct::Kind kind, const std::vector<Piece>& pieces,
                   const SlotMatrix& a, int matrix, const SlotMatrix& c);
  void activate(RankStep& step);
  void activate_again(RankStep& step);
  void add_activation(RankStep& step, const std::vector<Piece>& pieces);
  void activate_gradient(RankStep& step);
  void add_outer(RankStep& step, const Kept& a, const SlotMatrix& b, int matrix);
  /// Pieces cut where rows that are as in the forward pass begin or end: the n-th parts of all.
  std::vector<std::vector<Piece>> parts(const std::vector<Piece>& pieces) const;
  Place where(const Kept& kept, const Piece& part) const;

  std::size_t slots() const { return experts_.size(); }
  std::size_t slot_of(ChoiceId choice) const;
  Place parameters(std::size_t slot, int matrix) const;
  Place parameter_gradient(std::size_t slot, int matrix) const;
  std::int64_t elements(int matrix) const;  // 1: W1, 2: W2

  Draft& draft_;
  const RoutedLayer& routing_;
  const ExpertShape& shape_;
  std::vector<ExpertId> experts_;  // [slot]
  BufferId parameters_{-1}, gradients_{-1};
  PassRows forward_, backward_;
  std::vector<std::vector<char>> copied_;   // [slot][row of backward_]
  std::vector<std::int64_t> next_forward_;  // [slot] where the row of the next gradient may be
  Kept input_, h_, activated_;
  SlotMatrix output_;
  SlotMatrix gradient_, activated_gradient_, h_gradient_, input_gradient_;
  std::map<OpType, std::vector<std::int64_t>> done_;  // by kernel, [slot] rows
};

}  // namespace moesim
