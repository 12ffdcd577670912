// SPDX-License-Identifier: Apache-2.0
#include "sim/model/layer_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace moesim {

std::string numbers_text(const std::vector<int>& numbers) {
  const auto gap = [](int a, int b) { return b != a + 1; };
  const bool consecutive =
      numbers.size() > 1 && std::ranges::adjacent_find(numbers, gap) == numbers.end();
  return consecutive ? fmt::format("{}..{}", numbers.front(), numbers.back())
                     : fmt::format("{}", fmt::join(numbers, ", "));
}

std::vector<int> dense_layers(const std::vector<int>& numbers, const MoeModel& model) {
  std::vector<int> dense;
  std::ranges::copy_if(numbers, std::back_inserter(dense), [&](int number) {
    return !std::ranges::binary_search(model.moe_layers, number);
  });
  return dense;
}

std::string dense_layers_text(const std::vector<int>& dense, const MoeModel& model) {
  if (model.experts == 0)
    return fmt::format("the model '{}' is dense: it routes nothing", model.name);
  const bool many = dense.size() > 1;
  return fmt::format("layer{} {} {} dense in the model '{}', whose MoE layers are {}",
                     many ? "s" : "", numbers_text(dense), many ? "are" : "is", model.name,
                     numbers_text(model.moe_layers));
}

}  // namespace moesim
