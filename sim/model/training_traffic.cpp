// SPDX-License-Identifier: Apache-2.0
#include "sim/model/training_traffic.h"

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

constexpr double element_read = 2;  // bytes that a cast reads

/// Null for kernels that do not multiply with weights: the scores of a coarse attention are
/// products of activations.
const GroupedGemm* product_with_weights(const Kernel& kernel, const OpType& op) {
  return multiplies_activations(op.kind) ? nullptr : std::get_if<GroupedGemm>(&kernel);
}

Bytes bytes_of(std::int64_t elements, double each) {
  return Bytes(std::llround(static_cast<double>(elements) * each));
}

/// Queries, keys and values; backward the gradient of what they gave.
std::int64_t quantized_by(const FusedAttention& attention) {
  const AttentionHeads& shape = attention.shape;
  if (shape.pass == Pass::backward) return attention.queries * shape.heads * shape.v_width;
  return attention.queries *
         (shape.heads * shape.qk_width + shape.kv_heads * (shape.qk_width + shape.v_width));
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
  if (const auto* attention = std::get_if<FusedAttention>(&kernel); attention && of_software) {
    if (!is_quantized(attention->shape.type)) return {};
    return {bytes_of(quantized_by(*attention), per_cast), cast_kernels};
  }
  const GroupedGemm* gemm = product_with_weights(kernel, op);
  if (gemm == nullptr || !is_quantized(gemm->type)) return {};
  const bool routed = fused_experts && (op.kind == OpKind::fc1 || op.kind == OpKind::fc2);
  Cast cast{Bytes(0), routed ? 0 : scale_kernels};
  if (op.role == Role::wgrad) return cast;
  // What fc2 reads forward, and fc1 backward, is what the other wrote.
  const bool inner = routed && (op.kind == OpKind::fc2) == (op.role == Role::plain);
  const bool forward = op.role == Role::plain;
  int groups = 0;
  for (const std::int64_t m : gemm->m) {
    if (m == 0) continue;
    cast.bytes += bytes_of(m * gemm->k, inner && forward ? per_cast - element_read : per_cast);
    ++groups;
  }
  if (!inner) cast.kernels += cast_kernels * (routed ? std::min(groups, 1) : groups);
  return cast;
}

}  // namespace moesim
