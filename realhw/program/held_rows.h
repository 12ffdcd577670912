// SPDX-License-Identifier: Apache-2.0
// Where the token rows lie that one rank holds while a layer's exchanges move them.
#pragma once

#include <vector>

#include "realhw/program/draft.h"

namespace moesim {

/// A row of a token that serves some of its choices. On the way out it is a copy of the token, on
/// the way back the sum of the results of its choices.
struct HeldRow {
  Choices choices = 0;
  RowSums::Term value;
  OpId made_by{-1};  // below 0: here from the start
};

/// Rows by token. An op takes only what ops before it have made.
class HeldRows {
 public:
  HeldRows(const Ancestors& ancestors, int tokens)
      : ancestors_(ancestors), rows_(static_cast<std::size_t>(tokens)) {}

  void add(TokenId token, HeldRow row) { rows_[token.index()].push_back(row); }
  /// A copy of the token; `choices` are given away. Throws std::runtime_error when some of them, or
  /// for 0 the token itself, are not here.
  Place take_copy(TokenId token, Choices choices, OpId op);
  /// Appends the parts of the sum of exactly these choices and gives them away (nothing for 0).
  /// Throws std::runtime_error when some are not here, or only within a sum with others.
  void take_sum(TokenId token, Choices choices, OpId op, std::vector<RowSums::Term>& terms);
  /// Whether the op may take results of all these choices.
  bool has(TokenId token, Choices choices, OpId op) const {
    return (choices & ~held(token, op)) == 0;
  }
  const std::vector<HeldRow>& rows(TokenId token) const { return rows_[token.index()]; }

 private:
  bool usable(const HeldRow& row, OpId op) const { return ancestors_.visible(row.made_by, op); }
  Choices held(TokenId token, OpId op) const;

  const Ancestors& ancestors_;
  std::vector<std::vector<HeldRow>> rows_;  // [token]
};

}  // namespace moesim
