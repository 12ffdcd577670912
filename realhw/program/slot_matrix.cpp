// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/slot_matrix.h"

#include <stdexcept>

namespace moesim {

void SlotMatrix::add(std::size_t slot, std::int64_t rows, OpId made_by) {
  if (rows == 0) return;
  if (buffer_.value < 0) {
    buffer_ = draft_.add_buffer(name_, first_row_.back() * draft_.row_bytes(width_),
                                draft_.program.matrices);
  }
  const std::int64_t end = this->rows(slot) + rows;
  if (end > first_row_[slot + 1] - first_row_[slot]) {
    throw std::runtime_error("an expert gets more rows than its kernels compute");
  }
  if (!made_[slot].empty() && made_[slot].back().by == made_by) {
    made_[slot].back().end = end;
  } else {
    made_[slot].push_back({end, made_by});
  }
}

std::int64_t SlotMatrix::visible(std::size_t slot, OpId op) const {
  std::int64_t rows = 0;
  for (const Made& made : made_[slot]) {
    if (!draft_.ancestors.visible(made.by, op)) break;
    rows = made.end;
  }
  return rows;
}

void SlotMatrix::check(RankStep& step, const std::vector<Piece>& pieces) const {
  FiniteCheck check{step.op, {}};
  for (const Piece& piece : pieces) {
    check.ranges.push_back({at(piece.slot, piece.first), piece.rows * width_});
  }
  if (!check.ranges.empty()) step.after.emplace_back(std::move(check));
}

}  // namespace moesim
