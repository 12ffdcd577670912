// SPDX-License-Identifier: Apache-2.0
// Passes of which a test says every choice.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "sim/import/routed_pass.h"

namespace moesim {

using Ids = std::vector<std::int32_t>;

/// Of one layer per list, with so many choices a token.
inline ChoiceTable table_of_layers(const std::vector<Ids>& layers, std::int64_t choices) {
  std::vector<NpyArray> arrays;
  for (const Ids& ids : layers) {
    const auto tokens = std::ssize(ids) / choices;
    arrays.push_back(NpyArray::of(Ids(ids), {tokens, choices}, "ids"));
  }
  return ChoiceTable(std::move(arrays));
}

inline RoutedPass pass_of_layers(const std::vector<Ids>& layers, std::int64_t choices,
                                 const std::vector<std::int32_t>& lengths = {}) {
  RoutedPass pass{"pass", table_of_layers(layers, choices), lengths};
  if (lengths.empty()) pass.lengths = {static_cast<std::int32_t>(pass.ids.tokens())};
  return pass;
}

}  // namespace moesim
