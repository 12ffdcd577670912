// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/op_sizes.h"

#include <fmt/format.h>

namespace moesim {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

/// memory_traffic_of in numbers that cannot overflow, or nanoseconds.
struct SizeOf {
  double operator()(const GroupedGemm& gemm) const {
    double elements = 0;
    for (const std::int64_t m : gemm.wave ? gemm.wave->rows : gemm.m) {
      elements += real(m) * real(gemm.k) + (real(m) + real(gemm.k)) * real(gemm.n);
    }
    return elements * bytes_per_element(gemm.type);
  }
  double operator()(const FusedAttention& attention) const {
    const AttentionHeads& shape = attention.shape;
    const double width =
        (real(shape.heads) + shape.kv_heads) * (real(shape.qk_width) + shape.v_width);
    const double rows = real(attention.queries) + real(attention.keys);
    return (2 * rows * width + real(attention.attended)) * size_of(shape.type);
  }
  double operator()(const MemoryBound& kernel) const {
    return real(kernel.read.value) + real(kernel.written.value);
  }
  double operator()(const HostWork& work) const { return real(work.nanoseconds); }
};

}  // namespace

std::string size_mistake(const Kernel& kernel) {
  const double size = std::visit(SizeOf(), kernel);
  if (size <= most_op_bytes) return "";
  if (std::holds_alternative<HostWork>(kernel)) return fmt::format(": {:.3g} ns of work", size);
  return fmt::format(": a kernel of {:.3g} bytes, more than {:.3g}", size, most_op_bytes);
}

std::string size_mistake(double units, Bytes unit) {
  const double bytes = units * real(unit.value);
  if (bytes <= most_op_bytes) return "";
  return fmt::format(": an exchange of {:.3g} bytes, more than {:.3g}", bytes, most_op_bytes);
}

}  // namespace moesim
