// SPDX-License-Identifier: Apache-2.0
// Values by token, layer and choice (expert ids, gate weights), however the recorder laid them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/npy.h"

namespace moesim {

/// Values [token][layer][choice] in one array whose axes have any order, or one array per layer.
class ChoiceTable {
 public:
  /// `order` is "tlk", "ltk" (layer first), or "": the axis as long as `tokens` is that of the
  /// tokens. Two axes are those of a single layer. Throws Error when the axes cannot be told apart.
  ChoiceTable(const NpyArray& values, std::optional<std::int64_t> tokens, const std::string& order);
  /// One array [token][choice] per layer. Throws Error unless their shapes are alike.
  explicit ChoiceTable(std::vector<NpyArray> layers);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t layers() const { return std::ssize(layers_); }
  std::int64_t choices() const { return choices_; }
  /// Some of the tokens.
  ChoiceTable part(std::int64_t first_token, std::int64_t tokens) const;
  /// The tokens first, first + step, first + 2 step ...
  ChoiceTable every(std::int64_t first_token, std::int64_t step) const;

  /// Lets mapped values of some tokens leave memory.
  void forget(std::int64_t first_token, std::int64_t tokens) const;

  const std::string& file() const { return layers_.front().values.file(); }
  std::string describe() const { return layers_.front().values.describe(); }
  bool holds_integers() const { return layers_.front().values.type().is_integer(); }
  const NpyArray& values(std::int64_t layer) const { return layers_[layer].values; }
  /// Where a choice is in the layer's values.
  std::int64_t index(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    const Layer& l = layers_[static_cast<std::size_t>(layer)];
    return l.first + token * l.stride + k;
  }
  std::int64_t at(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    return values(layer).integer(index(token, layer, k));
  }
  double real(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    return values(layer).real(index(token, layer, k));
  }

 private:
  struct Layer {
    NpyArray values;
    std::int64_t first = 0;
    std::int64_t stride = 0;  // from a token to the next
  };
  std::vector<Layer> layers_;
  std::int64_t tokens_ = 0, choices_ = 0;
};

}  // namespace moesim
