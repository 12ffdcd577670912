// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/row_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/plan/check.h"

namespace moesim {
namespace {

[[noreturn]] void absent(TokenId token, Choices choices, const char* what) {
  throw std::runtime_error(
      fmt::format("{} of token {} choices {}", what, token.value, list_text(choice_list(choices))));
}

}  // namespace

void RowStore::clear() {
  for (auto& rows : rows_) rows.clear();
}

void RowStore::add(TokenId token, Choices choices, std::span<const float> values) {
  rows_of(token).push_back({choices, {values.begin(), values.end()}});
}

Choices RowStore::held(TokenId token) const {
  Choices all = 0;
  for (const Row& row : rows_[token.index()]) all |= row.choices;
  return all;
}

void RowStore::take_copy(TokenId token, Choices choices, std::span<float> values) {
  auto& rows = rows_of(token);
  if (rows.empty() || (choices & ~held(token)) != 0) absent(token, choices, "there is no row");
  const auto from = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return choices == 0 || (row.choices & choices) != 0;
  });
  std::copy(from->values.begin(), from->values.end(), values.begin());
  for (Row& row : rows) row.choices &= ~choices;
}

void RowStore::take_sum(TokenId token, Choices choices, std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0f);
  auto& rows = rows_of(token);
  if ((choices & ~held(token)) != 0) absent(token, choices, "there is no result");
  for (const Row& row : rows) {
    if ((row.choices & choices) == 0) continue;
    if ((row.choices & ~choices) != 0) absent(token, row.choices, "a sum cannot be split:");
    for (std::size_t i = 0; i < width_; ++i) values[i] += row.values[i];
  }
  std::erase_if(rows, [&](const Row& row) { return (row.choices & choices) != 0; });
}

}  // namespace moesim
