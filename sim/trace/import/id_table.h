// SPDX-License-Identifier: Apache-2.0
// Expert ids of an array, whichever order its axes have: recorders differ in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/trace/npy.h"

namespace moesim {

/// Ids [token][layer][choice], whatever the order of the array's axes.
class IdTable {
 public:
  /// `order` is "tlk", "ltk" (layer first), or "": the axis as long as the sequences together are
  /// is that of the tokens. Two axes are those of a single layer. Throws Error when the array holds
  /// no ids or its axes cannot be told apart. The array must outlive the table.
  IdTable(const NpyArray& ids, const NpyArray* lengths, const std::string& order);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t layers() const { return layers_; }
  std::int64_t choices() const { return choices_; }
  const NpyArray& array() const { return ids_; }
  /// Where a choice stands in the array.
  std::int64_t index(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    return token * token_stride_ + layer * layer_stride_ + k;
  }
  std::int64_t at(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    return ids_.integer(index(token, layer, k));
  }
  /// Whether all of a token's ids are `value`.
  bool all(std::int64_t token, std::int64_t value) const;
  /// Whether two tokens have the same ids in all layers.
  bool same(std::int64_t a, std::int64_t b) const;

 private:
  const NpyArray& ids_;
  std::int64_t tokens_ = 0, layers_ = 0, choices_ = 0;
  std::int64_t token_stride_ = 0, layer_stride_ = 0;
};

}  // namespace moesim
