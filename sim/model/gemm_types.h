// SPDX-License-Identifier: Apache-2.0
// In which type each product with weights of a model is computed.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/model/op_kind.h"

namespace moesim {

/// Products with weights; the router has the type of activations.
enum class GemmPart {
  attention,  // projections
  mamba,      // projections
  dense,      // dense FFNs
  shared,     // shared experts
  experts,    // routed experts
  latent,     // into the latent of routed experts, and out of it
  mtp,        // multi-token prediction: its projection, and all parts of its layers
  head        // logits
};
inline constexpr int gemm_part_count = static_cast<int>(GemmPart::head) + 1;
const std::vector<std::string>& gemm_part_names();  // by number

class GemmParts {
 public:
  constexpr GemmParts() = default;
  constexpr GemmParts(std::initializer_list<GemmPart> parts) {
    for (const GemmPart part : parts) add(part);
  }
  static constexpr GemmParts all() {
    GemmParts parts;
    parts.bits_ = (1U << gemm_part_count) - 1;
    return parts;
  }
  constexpr void add(GemmPart part) { bits_ |= 1U << static_cast<int>(part); }
  constexpr bool has(GemmPart part) const { return (bits_ & 1U << static_cast<int>(part)) != 0; }
  bool operator==(const GemmParts&) const = default;

 private:
  unsigned bits_ = 0;
};

/// `type` in `parts` of the layers from `first` to before `end`, else `others`.
struct GemmTypes {
  DataType type = DataType::bf16;
  DataType others = DataType::bf16;
  GemmParts parts = GemmParts::all();
  int first = 0, end = 0;        // layers of the model
  int layers = 0;                // of the model: those of multi-token prediction come behind them
  bool weight_gradients = true;  // else these are products in `others`

  static GemmTypes only(DataType type) { return {type, type}; }
  /// Of a part in a layer; the head is in none.
  DataType of(GemmPart part, int layer, Role role = Role::plain) const;
  /// Of a block's products; of a block with experts those of the shared ones.
  DataType of(BlockKind block, int layer, Role role = Role::plain) const;
  /// Of the routed experts of most layers.
  DataType of_experts() const { return parts.has(GemmPart::experts) ? type : others; }
  /// In which these keep their inputs: that of weight gradients.
  DataType kept_of_experts() const { return weight_gradients ? of_experts() : others; }
  bool operator==(const GemmTypes&) const = default;
};

}  // namespace moesim
