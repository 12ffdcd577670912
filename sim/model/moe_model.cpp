// SPDX-License-Identifier: Apache-2.0
#include "sim/model/moe_model.h"

namespace moesim {

int size_of(DataType type) {
  switch (type) {
    case DataType::fp8:
      return 1;
    case DataType::bf16:
    case DataType::fp16:
      return 2;
    case DataType::fp32:
      return 4;
  }
  return 0;
}

const char* name_of(DataType type) {
  static constexpr const char* names[] = {"fp8", "bf16", "fp16", "fp32"};
  return names[static_cast<std::size_t>(type)];
}

Bytes MoeModel::row_bytes() const {
  return Bytes(static_cast<std::int64_t>(hidden) * size_of(activations));
}
std::int64_t MoeModel::expert_parameters() const {
  return std::int64_t{1} * expert_matrices * hidden * expert_ffn;
}

}  // namespace moesim
