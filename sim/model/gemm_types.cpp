// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gemm_types.h"

namespace moesim {
namespace {

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

const std::vector<std::string>& gemm_part_names() {
  static const std::vector<std::string> names = {"attention", "mamba", "dense", "shared", "experts",
                                                 "latent",    "mtp",   "head",  "scores"};
  return names;
}

DataType GemmTypes::of(GemmPart part, int layer, Role role) const {
  if (!parts.has(part) || (role == Role::wgrad && !weight_gradients)) return others;
  if (part == GemmPart::head) return type;
  if (layer >= layers) return parts.has(GemmPart::mtp) ? type : others;
  return layer >= first && layer < end ? type : others;
}

DataType GemmTypes::of(BlockKind block, int layer, Role role) const {
  return of(part_of(block), layer, role);
}

}  // namespace moesim
