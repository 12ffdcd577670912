// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gemm_types.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace moesim {

const std::vector<std::string> serving_precision_names = {"bf16",  "fp8",  "nvfp4",
                                                          "mxfp4", "int4", "mxfp4-mxfp8"};

namespace {

constexpr std::array served_types = {DataType::bf16,  DataType::fp8,  DataType::fp4,
                                     DataType::mxfp4, DataType::int4, DataType::mxfp4_mxfp8};

GemmPart part_of(BlockKind block) {
  switch (block) {
    case BlockKind::attention:
      return GemmPart::attention;
    case BlockKind::mamba:
      return GemmPart::mamba;
    case BlockKind::dense_ffn:
      return GemmPart::dense;
    case BlockKind::mtp:
      return GemmPart::mtp;
    case BlockKind::moe:
      return GemmPart::shared;
    case BlockKind::embedding:  // has no products
    case BlockKind::head:
      break;
  }
  return GemmPart::head;
}

}  // namespace

DataType type_of_precision(int serving_precision) {
  return served_types.at(static_cast<std::size_t>(serving_precision));
}

const std::string& precision_of_type(DataType type) {
  const auto at = std::ranges::find(served_types, type);
  if (at == served_types.end()) throw std::invalid_argument(name_of(type));
  return serving_precision_names[static_cast<std::size_t>(at - served_types.begin())];
}

GemmTypes GemmTypes::served(DataType type, const MoeModel& model,
                            const std::optional<GemmParts>& parts) {
  if (!is_stored_only(type)) {
    return {type, model.activations, parts.value_or(usually_quantized),
            0,    model.layers,      model.layers};
  }
  GemmTypes types{model.checkpoint_others.value_or(model.activations), model.activations};
  types.experts = type;
  return types;
}

const std::vector<std::string>& gemm_part_names() {
  static const std::vector<std::string> names = {"attention", "mamba", "dense", "shared", "experts",
                                                 "latent",    "mtp",   "head",  "scores"};
  return names;
}

DataType GemmTypes::of(GemmPart part, int layer, Role role) const {
  if (part == GemmPart::experts && experts) return *experts;
  if (!parts.has(part) || (role == Role::wgrad && !weight_gradients)) return others;
  if (part == GemmPart::head) return type;
  if (layer >= layers) return parts.has(GemmPart::mtp) ? type : others;
  return layer >= first && layer < end ? type : others;
}

DataType GemmTypes::of(BlockKind block, int layer, Role role) const {
  return of(part_of(block), layer, role);
}

DataType narrowest_type(const GemmTypes& types, const MoeModel& model) {
  DataType narrowest = types.others;
  for (int layer = 0; layer < model.layers + model.mtp; ++layer) {
    for (std::size_t part = 0; part < gemm_part_names().size(); ++part) {
      const DataType type = type_of_rows(types.of(static_cast<GemmPart>(part), layer));
      if (bytes_per_element(type) < bytes_per_element(narrowest)) narrowest = type;
    }
  }
  return narrowest;
}

}  // namespace moesim
