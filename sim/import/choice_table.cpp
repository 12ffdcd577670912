// SPDX-License-Identifier: Apache-2.0
#include "sim/import/choice_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/most.h"

namespace moesim {
namespace {

bool token_major(const NpyArray& values, std::optional<std::int64_t> tokens,
                 const std::string& order) {
  if (!order.empty()) return order == "tlk";
  const bool first = tokens == values.shape()[0];
  if (first == (tokens == values.shape()[1])) {
    throw error_in(values.file(), fmt::format("{}: which axis is the tokens?", values.describe()),
                   "give --order tlk (token, layer, choice) or ltk");
  }
  return first;
}

}  // namespace

ChoiceTable::ChoiceTable(const NpyArray& values, std::optional<std::int64_t> tokens,
                         const std::string& order) {
  const auto& shape = values.shape();
  if (shape.size() != 2 && shape.size() != 3) {
    throw error_in(values.file(), fmt::format("has shape {}; ids have three axes: token, layer, "
                                              "choice (or two for one layer)",
                                              shape_text(shape)));
  }
  choices_ = shape.back();
  const bool single = shape.size() == 2;
  const bool tlk = single || token_major(values, tokens, order);
  tokens_ = tlk ? shape[0] : shape[1];
  const std::int64_t layers = single ? 1 : tlk ? shape[1] : shape[0];
  if (layers == 0 || choices_ == 0) throw error_in(values.file(), "holds no ids");
  if (layers > max_layer_number) {
    throw error_in(values.file(), fmt::format("{} has too many layers", values.describe()));
  }
  for (std::int64_t l = 0; l < layers; ++l) {
    layers_.push_back(
        {values, tlk ? l * choices_ : l * tokens_ * choices_, tlk ? layers * choices_ : choices_});
  }
}

ChoiceTable::ChoiceTable(std::vector<NpyArray> layers) {
  for (NpyArray& values : layers) {
    const auto& shape = values.shape();
    if (shape.size() != 2 || shape[1] == 0) {
      throw error_in(values.file(), fmt::format("has shape {}; the ids of a layer have two axes: "
                                                "token, choice",
                                                shape_text(shape)));
    }
    if (layers_.empty()) tokens_ = shape[0], choices_ = shape[1];
    if (shape[0] != tokens_ || shape[1] != choices_) {
      throw error_in(values.file(),
                     fmt::format("has shape {} but the first layer has {}", shape_text(shape),
                                 shape_text(layers.front().shape())));
    }
    layers_.push_back({values, 0, choices_});
  }
}

ChoiceTable ChoiceTable::part(std::int64_t first_token, std::int64_t tokens) const {
  ChoiceTable some = *this;
  some.tokens_ = tokens;
  for (Layer& layer : some.layers_) layer.first += first_token * layer.stride;
  return some;
}

ChoiceTable ChoiceTable::every(std::int64_t first_token, std::int64_t step) const {
  ChoiceTable some = part(first_token, (tokens_ - first_token + step - 1) / step);
  for (Layer& layer : some.layers_) layer.stride *= step;
  return some;
}

void ChoiceTable::forget(std::int64_t first_token, std::int64_t tokens) const {
  for (const Layer& layer : layers_) {
    const std::int64_t first = layer.first + first_token * layer.stride;
    layer.values.forget(first, std::min(tokens * layer.stride, layer.values.count() - first));
  }
}

}  // namespace moesim
