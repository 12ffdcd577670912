// SPDX-License-Identifier: Apache-2.0
#include "sim/model/training_traffic.h"

#include <cmath>

namespace moesim {
namespace {

/// Null for kernels that do not multiply with weights: the scores of a coarse attention are
/// products of activations.
const GroupedGemm* product_with_weights(const Kernel& kernel, const OpType& op) {
  return multiplies_activations(op.kind) ? nullptr : std::get_if<GroupedGemm>(&kernel);
}

Bytes bytes_of(std::int64_t elements, double each) {
  return Bytes(std::llround(static_cast<double>(elements) * each));
}

}  // namespace

Bytes TrainingTraffic::of_gradient(const Kernel& kernel, const OpType& op) const {
  const GroupedGemm* gemm = product_with_weights(kernel, op);
  if (gemm == nullptr || op.role != Role::wgrad || per_weight == 0) return Bytes(0);
  std::int64_t weights = 0;
  for (const std::int64_t m : gemm->m) {
    if (m > 0) weights += gemm->n * gemm->k;
  }
  return bytes_of(weights, per_weight - bytes_per_element(gemm->type));
}

TrainingTraffic::Cast TrainingTraffic::of_cast(const Kernel& kernel, const OpType& op) const {
  const GroupedGemm* gemm = product_with_weights(kernel, op);
  if (gemm == nullptr || !is_quantized(gemm->type)) return {};
  Cast cast{Bytes(0), scale_kernels};
  if (op.role == Role::wgrad) return cast;
  for (const std::int64_t m : gemm->m) {
    if (m == 0) continue;
    cast.bytes += bytes_of(m * gemm->k, per_cast);
    cast.kernels += cast_kernels;
  }
  return cast;
}

}  // namespace moesim
