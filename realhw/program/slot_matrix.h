// SPDX-License-Identifier: Apache-2.0
// A matrix of an expert kernel: the rows of all slots of a layer on a rank.
#pragma once

#include <string>
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

}  // namespace moesim
