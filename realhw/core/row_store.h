// SPDX-License-Identifier: Apache-2.0
// The token rows that one rank holds while a layer's exchanges move them.
#pragma once

#include <span>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// Rows by token, each with the choices that it serves. On the way out a row is a copy of the
/// token, on the way back the sum of the results of its choices.
class RowStore {
 public:
  RowStore(int tokens, int width) : width_(static_cast<std::size_t>(width)), rows_(tokens) {}

  void clear();
  void add(TokenId token, Choices choices, std::span<const float> values);
  /// Writes a copy of the token and gives `choices` away. Throws std::runtime_error when some of
  /// them, or for 0 the token itself, are not here.
  void take_copy(TokenId token, Choices choices, std::span<float> values);
  /// Writes the sum of exactly these choices and gives them away (nothing for 0: zeros). Throws
  /// std::runtime_error when some are not here, or only within a sum with others.
  void take_sum(TokenId token, Choices choices, std::span<float> values);
  /// All choices of a token that are here.
  Choices held(TokenId token) const;

 private:
  struct Row {
    Choices choices;
    std::vector<float> values;
  };
  std::vector<Row>& rows_of(TokenId token) { return rows_[token.index()]; }

  std::size_t width_;
  std::vector<std::vector<Row>> rows_;  // [token]
};

}  // namespace moesim
