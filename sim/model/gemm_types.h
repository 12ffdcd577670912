// SPDX-License-Identifier: Apache-2.0
// In which type each product of a model is computed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/enum_set.h"
#include "sim/model/moe_model.h"
#include "sim/model/op_kind.h"

namespace moesim {

/// Products; the router has the type of activations.
enum class GemmPart {
  attention,  // projections
  mamba,      // projections
  dense,      // dense FFNs
  shared,     // shared experts
  experts,    // routed experts
  latent,     // into the latent of routed experts, and out of it
  mtp,        // multi-token prediction: its projection, and all parts of its layers
  head,       // logits
  scores      // of attention, without weights: queries by keys, and by values
};
const std::vector<std::string>& gemm_part_names();  // by number

/// In which types engines hold weights, as `serving.precision` and checkpoints name them.
extern const std::vector<std::string> serving_precision_names;
DataType type_of_precision(int serving_precision);
/// Throws std::invalid_argument for a type that none of these is.
const std::string& precision_of_type(DataType type);

using GemmParts = EnumSet<GemmPart>;
/// All with weights but the head: what Transformer Engine and engines quantize.
inline constexpr GemmParts usually_quantized = {
    GemmPart::attention, GemmPart::mamba,  GemmPart::dense, GemmPart::shared,
    GemmPart::experts,   GemmPart::latent, GemmPart::mtp};

/// `type` in `parts` of the layers from `first` to before `end`, else `others`.
struct GemmTypes {
  DataType type = DataType::bf16;
  DataType others = DataType::bf16;
  GemmParts parts = usually_quantized;
  int first = 0, end = 0;        // layers of the model
  int layers = 0;                // of the model: those of multi-token prediction come behind them
  bool weight_gradients = true;  // else these are products in `others`
  std::optional<DataType> experts = {};  // of routed ones in all layers, if it is another

  static GemmTypes only(DataType type) { return {type, type}; }
  /// Of an engine: in these parts, by default all that are usually quantized, or in routed experts
  /// if it is of stored_types; the model says in which type others are.
  static GemmTypes served(DataType type, const MoeModel& model,
                          const std::optional<GemmParts>& parts = {});
  /// Of a part in a layer; the head is in none.
  DataType of(GemmPart part, int layer, Role role = Role::plain) const;
  /// Of a block's products; of a block with experts those of the shared ones.
  DataType of(BlockKind block, int layer, Role role = Role::plain) const;
  /// Of the routed experts of most layers.
  DataType of_experts() const {
    return experts.value_or(parts.has(GemmPart::experts) ? type : others);
  }
  /// In which these keep their inputs: that of weight gradients.
  DataType kept_of_experts() const { return weight_gradients ? of_experts() : others; }
  bool operator==(const GemmTypes&) const = default;
};

/// Of the rows of any product of the model.
DataType narrowest_type(const GemmTypes& types, const MoeModel& model);

}  // namespace moesim
