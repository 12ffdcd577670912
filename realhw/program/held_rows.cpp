// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/held_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/plan/check.h"

namespace moesim {
namespace {

/// Ends compiling: the plan has the op before what brings it the row, or brings it nothing.
[[noreturn]] void absent(TokenId token, Choices choices, const char* what) {
  throw std::runtime_error(
      fmt::format("{} of token {} choices {}", what, token.value, list_text(choice_list(choices))));
}

}  // namespace

Choices HeldRows::held(TokenId token, OpId op) const {
  Choices all = 0;
  for (const HeldRow& row : rows(token)) all |= usable(row, op) ? row.choices : 0;
  return all;
}

Place HeldRows::take_copy(TokenId token, Choices choices, OpId op) {
  auto& rows = rows_[token.index()];
  const auto from = std::find_if(rows.begin(), rows.end(), [&](const HeldRow& row) {
    return usable(row, op) && (choices == 0 || (row.choices & choices) != 0);
  });
  if (from == rows.end() || (choices & ~held(token, op)) != 0) {
    absent(token, choices, "there is no row");
  }
  const Place place = from->value.from;
  // Copies are equal, so whichever rows have the choices give them away.
  for (HeldRow& row : rows) row.choices &= usable(row, op) ? ~choices : row.choices;
  return place;
}

void HeldRows::take_sum(TokenId token, Choices choices, OpId op,
                        std::vector<RowSums::Term>& terms) {
  if (!has(token, choices, op)) absent(token, choices, "there is no result");
  std::erase_if(rows_[token.index()], [&](const HeldRow& row) {
    if ((row.choices & choices) == 0 || !usable(row, op)) return false;
    if ((row.choices & ~choices) != 0) absent(token, row.choices, "a sum cannot be split:");
    terms.push_back(row.value);
    return true;
  });
}

}  // namespace moesim
