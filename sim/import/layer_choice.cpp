// SPDX-License-Identifier: Apache-2.0
#include "sim/import/layer_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/counted.h"
#include "sim/base/error.h"
#include "sim/base/most.h"

namespace moesim {
namespace {

/// Whether the layers that are dense in the model hold what an engine leaves there.
bool dense_layers_are_empty(const RoutedPass& pass, const ImportOptions& options) {
  for (std::int64_t l = 0; l < pass.ids.layers(); ++l) {
    if (std::ranges::find(options.moe_layers, static_cast<int>(l)) != options.moe_layers.end()) {
      continue;
    }
    for (std::int64_t t = 0; t < pass.ids.tokens(); ++t) {
      for (std::int64_t k = 0; k < pass.ids.choices(); ++k) {
        const auto id = pass.ids.at(t, l, k);
        if (id != 0 && id != -1) return false;
      }
    }
  }
  return true;
}

/// Routers beyond those of the MoE layers that multi-token prediction explains: as many as the
/// model says, or one of a model that does not say.
bool are_mtp_layers(std::int64_t extra, const ImportOptions& options) {
  return extra > 0 && extra == std::max(options.mtp_layers, 1);
}

/// The number of each layer of the recording: those of the files, of the flags, of the model's MoE
/// layers, or from 0 on if all layers of the model are recorded. -1: of multi-token prediction.
std::vector<int> numbers_of(const RoutedPass& pass, const ImportOptions& options) {
  const auto layers = pass.ids.layers();
  if (!options.layers.empty()) {
    if (!pass.layers.empty()) {
      throw error_in(pass.where, "says itself which layers it holds", "drop --layers");
    }
    if (std::ssize(options.layers) != layers) {
      throw error_in(pass.where, fmt::format("has {} but --layers names {}",
                                             counted(layers, "layer"), options.layers.size()));
    }
    return options.layers;
  }
  if (!pass.layers.empty()) return pass.layers;
  if (options.moe_layers.empty()) {
    throw error_in(pass.where, "does not say which layers of the model it holds",
                   "give --model or --layers FIRST:COUNT");
  }
  if (std::ssize(options.moe_layers) == layers) return options.moe_layers;
  const std::int64_t extra = layers - std::ssize(options.moe_layers);
  const bool all_layers = options.moe_layers.back() < layers &&
                          (!pass.of_routers || dense_layers_are_empty(pass, options));
  if (!all_layers && pass.of_routers && are_mtp_layers(extra, options)) {
    std::vector<int> numbers = options.moe_layers;
    numbers.resize(static_cast<std::size_t>(layers), -1);
    return numbers;
  }
  if (!all_layers) {
    throw error_in(
        pass.where,
        fmt::format("has {} but the model has {} MoE layers{}",
                    counted(layers, pass.of_routers ? "router" : "layer"),
                    options.moe_layers.size(),
                    options.mtp_layers > 0
                        ? fmt::format(" and {} of multi-token prediction", options.mtp_layers)
                        : ""),
        "--layers FIRST:COUNT says which they are; routers of multi-token prediction come last");
  }
  std::vector<int> all(static_cast<std::size_t>(layers));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool has(const std::vector<int>& layers, int number) {
  return std::ranges::find(layers, number) != layers.end();
}

/// Layers that the file numbers itself are all MoE layers of the model: otherwise a pipeline stage
/// is missing, or the numbers are counted in another way.
void check_complete(const RoutedPass& pass, const LayerChoice& choice,
                    const ImportOptions& options) {
  if (pass.layers.empty() || options.moe_layers.empty() || choice.numbers == options.moe_layers)
    return;
  throw error_in(pass.where,
                 fmt::format("has layers {} but the model's MoE layers are {}",
                             fmt::join(pass.layers, ", "), fmt::join(options.moe_layers, ", ")),
                 "--experts and --top-k instead of --model take any layers");
}

int choose_top_k(const RoutedPass& pass, const ImportOptions& options) {
  const std::int64_t choices = pass.ids.choices();
  const std::int64_t wanted = options.top_k > 0 ? options.top_k : choices;
  if (wanted > choices || choices > max_experts) {
    throw error_in(pass.ids.file(),
                   fmt::format("has {} choices per token but top-k is {}", choices, wanted));
  }
  return static_cast<int>(wanted);
}

}  // namespace

LayerChoice choose_layers(const RoutedPass& pass, const ImportOptions& options) {
  LayerChoice choice;
  const auto numbers = numbers_of(pass, options);
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::size_t l) { return numbers[l]; });
  choice.mtp = std::ranges::count(numbers, -1);
  for (const std::size_t l : order) {
    if (numbers[l] < 0) continue;
    if (!options.moe_layers.empty() && !has(options.moe_layers, numbers[l])) {
      choice.dense.push_back(static_cast<std::int64_t>(l));
      continue;
    }
    if (!choice.numbers.empty() && choice.numbers.back() == numbers[l]) {
      throw error_in(pass.where, fmt::format("has layer {} twice", numbers[l]));
    }
    choice.taken.push_back(static_cast<std::int64_t>(l));
    choice.numbers.push_back(numbers[l]);
  }
  if (choice.taken.empty()) throw error_in(pass.where, "holds no MoE layer of the model");
  check_complete(pass, choice, options);
  choice.top_k = choose_top_k(pass, options);
  return choice;
}

void check_left_out(const RoutedPass& pass, const LayerChoice& choice, std::int64_t first,
                    std::int64_t tokens) {
  const ChoiceTable& ids = pass.ids;
  for (const std::int64_t layer : choice.dense) {
    for (std::int64_t t = first; t < first + tokens; ++t) {
      for (std::int64_t k = 0; k < ids.choices(); ++k) {
        const auto id = ids.at(t, layer, k);
        if (id == 0 || id == -1) continue;
        throw error_in(
            pass.where,
            fmt::format("layer {} is dense in the model but token {} chose expert {}",
                        pass.layers.empty() ? layer : pass.layers[layer], t, id),
            fmt::format("the file has {}, and those of the model with experts are {}: counted in "
                        "another way, or another model's",
                        counted(ids.layers(), "layer"), fmt::join(choice.numbers, ", ")));
      }
    }
  }
  if (choice.top_k == ids.choices()) return;
  for (const std::int64_t layer : choice.taken) {
    for (std::int64_t t = first; t < first + tokens; ++t) {
      for (std::int64_t k = choice.top_k; k < ids.choices(); ++k) {
        if (ids.at(t, layer, k) == -1) continue;
        throw error_in(pass.ids.file(), fmt::format("has {} choices per token but top-k is {}",
                                                    ids.choices(), choice.top_k));
      }
    }
  }
}

}  // namespace moesim
