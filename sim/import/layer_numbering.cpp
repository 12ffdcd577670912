// SPDX-License-Identifier: Apache-2.0
#include "sim/import/layer_numbering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace moesim {

std::vector<int> layers_by_numbering(const std::vector<int>& layers, std::string_view numbering,
                                     const std::vector<int>& moe_layers) {
  std::vector<int> numbers;
  for (const int layer : layers) {
    if (numbering == "moe") {
      const auto known = std::ssize(moe_layers);
      numbers.push_back(known == 0      ? layer
                        : layer < known ? moe_layers[static_cast<std::size_t>(layer)]
                                        : -1);
    } else {
      numbers.push_back(layer - (numbering == "from-1" ? 1 : 0));
    }
  }
  return numbers;
}

std::vector<int> numbered_layers(const std::vector<int>& layers, const ImportOptions& options,
                                 const std::string& where) {
  const std::string found = fmt::format("has layers {}", fmt::join(layers, ", "));
  if (!options.numbering.empty()) {
    auto numbers = layers_by_numbering(layers, options.numbering, options.moe_layers);
    if (std::ranges::min(numbers) < 0) throw error_in(where, found + ", which are not counted so");
    return numbers;
  }
  if (options.moe_layers.empty() || layers == options.moe_layers) return layers;
  for (const char* numbering : {"moe", "from-1"}) {
    if (layers_by_numbering(layers, numbering, options.moe_layers) != options.moe_layers) continue;
    throw error_in(where,
                   fmt::format("{} but the model's MoE layers are {}", found,
                               fmt::join(options.moe_layers, ", ")),
                   fmt::format("--numbering {} says that they are counted {}", numbering,
                               std::string_view(numbering) == "moe" ? "from the first MoE layer, 0"
                                                                    : "from 1"));
  }
  return layers;
}

}  // namespace moesim
