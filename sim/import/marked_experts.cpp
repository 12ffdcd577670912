// SPDX-License-Identifier: Apache-2.0
#include "sim/import/marked_experts.h"

#include <fmt/format.h>

#include <vector>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// Two different ids of a row are not 0 and 1 if it has more than two.
bool is_marks(const NpyArray& array, int experts) {
  if (experts < 3 || array.shape().empty() || array.shape().back() != experts) return false;
  for (std::int64_t i = 0; i < array.count(); ++i) {
    const double mark = array.real(i);
    if (mark != 0 && mark != 1) return false;
  }
  return array.count() > 0;
}

}  // namespace

NpyArray without_marks(const NpyArray& array, int experts, int top_k) {
  if (!is_marks(array, experts)) return array;
  std::vector<std::int32_t> ids;
  std::int64_t choices = top_k;
  for (std::int64_t row = 0; row < array.count() / experts; ++row) {
    const auto before = std::ssize(ids);
    for (int e = 0; e < experts; ++e) {
      if (array.real(row * experts + e) != 0) ids.push_back(e);
    }
    const auto marked = std::ssize(ids) - before;
    if (choices == 0) choices = marked;
    if (marked == choices && choices > 0) continue;
    throw error_in(array.file(),
                   fmt::format("{}: row {} marks {} of {} experts, not {}", array.describe(), row,
                               marked, experts, choices),
                   "every token has the same number of choices: leave padded and dropped ones out");
  }
  auto shape = array.shape();
  shape.back() = choices;
  return NpyArray::of(std::move(ids), std::move(shape), array.file());
}

}  // namespace moesim
