// SPDX-License-Identifier: Apache-2.0
#include "sim/import/layer_numbering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace moesim {

std::vector<int> layers_by_numbering(const std::vector<int>& layers, std::string_view numbering,
                                     const ImportOptions& options) {
  const std::vector<int>& moe_layers = options.moe_layers;
  std::vector<int> numbers;
  for (const int layer : layers) {
    if (numbering == "moe") {
      const auto known = static_cast<int>(moe_layers.size());
      const bool mtp = layer - known < options.mtp_layers;
      numbers.push_back(known == 0      ? layer
                        : layer < known ? moe_layers[static_cast<std::size_t>(layer)]
                        : mtp           ? options.model_layers + layer - known
                                        : -1);
    } else {
      numbers.push_back(layer - (numbering == "from-1" ? 1 : 0));
    }
  }
  return numbers;
}

bool are_mtp_layers(std::int64_t extra, const ImportOptions& options) {
  return extra > 0 && extra == std::max(options.mtp_layers, 1);
}

std::vector<int> without_mtp(std::vector<int> numbers, const ImportOptions& options) {
  if (options.model_layers == 0 || options.moe_layers.empty()) return numbers;
  const int last = std::max(options.model_layers - 1, options.moe_layers.back());
  std::vector<int> behind;
  for (const int number : numbers) {
    if (number > last) behind.push_back(number);
  }
  std::ranges::sort(behind);
  const bool in_turn = !behind.empty() && behind.front() == last + 1 &&
                       behind.back() - behind.front() + 1 == std::ssize(behind);
  if (!in_turn || !are_mtp_layers(std::ssize(behind), options)) return numbers;
  for (int& number : numbers) {
    if (number > last) number = -1;
  }
  return numbers;
}

bool are_moe_layers(const std::vector<int>& numbers, const ImportOptions& options) {
  // A model that does not say that it has layers of MTP has none: else any numbers would fit.
  if (options.mtp_layers == 0) return numbers == options.moe_layers;
  std::vector<int> left = without_mtp(numbers, options);
  std::erase(left, -1);
  return left == options.moe_layers;
}

std::vector<int> numbered_layers(const std::vector<int>& layers, const ImportOptions& options,
                                 const std::string& where) {
  const std::string found = fmt::format("has layers {}", fmt::join(layers, ", "));
  if (!options.numbering.empty()) {
    auto numbers = layers_by_numbering(layers, options.numbering, options);
    if (std::ranges::min(numbers) < 0) throw error_in(where, found + ", which are not counted so");
    return numbers;
  }
  if (options.moe_layers.empty() || are_moe_layers(layers, options)) return layers;
  for (const char* numbering : {"moe", "from-1"}) {
    if (!are_moe_layers(layers_by_numbering(layers, numbering, options), options)) continue;
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
