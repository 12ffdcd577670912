// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/id_table.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace moesim {
namespace {

bool token_major(const NpyArray& ids, const NpyArray* lengths, const std::string& order) {
  if (!order.empty()) return order == "tlk";
  std::int64_t sum = 0;
  for (std::int64_t i = 0; lengths != nullptr && i < lengths->count(); ++i) {
    sum += lengths->integer(i);
  }
  if ((sum == ids.shape()[0]) == (sum == ids.shape()[1])) {
    throw error_in(ids.file(), fmt::format("{}: which axis is the tokens?", ids.describe()),
                   "give --order tlk (token, layer, choice) or ltk");
  }
  return sum == ids.shape()[0];
}

}  // namespace

IdTable::IdTable(const NpyArray& ids, const NpyArray* lengths, const std::string& order)
    : ids_(ids) {
  if (ids.type().kind == 'f') {
    throw error_in(ids.file(), fmt::format("holds {}; ids are integers", ids.type().name()));
  }
  const auto& shape = ids.shape();
  if (shape.size() != 2 && shape.size() != 3) {
    throw error_in(ids.file(), fmt::format("has shape {}; ids have three axes: token, layer, "
                                           "choice (or two for one layer)",
                                           shape_text(shape)));
  }
  choices_ = shape.back();
  const bool single = shape.size() == 2;
  const bool tlk = single || token_major(ids, lengths, order);
  tokens_ = tlk ? shape[0] : shape[1];
  layers_ = single ? 1 : tlk ? shape[1] : shape[0];
  token_stride_ = tlk ? layers_ * choices_ : choices_;
  layer_stride_ = tlk ? choices_ : tokens_ * choices_;
  if (tokens_ == 0 || layers_ == 0 || choices_ == 0) throw error_in(ids.file(), "holds no ids");
}

bool IdTable::all(std::int64_t token, std::int64_t value) const {
  for (std::int64_t l = 0; l < layers_; ++l) {
    for (std::int64_t k = 0; k < choices_; ++k) {
      if (at(token, l, k) != value) return false;
    }
  }
  return true;
}

bool IdTable::same(std::int64_t a, std::int64_t b) const {
  for (std::int64_t l = 0; l < layers_; ++l) {
    for (std::int64_t k = 0; k < choices_; ++k) {
      if (at(a, l, k) != at(b, l, k)) return false;
    }
  }
  return true;
}

}  // namespace moesim
