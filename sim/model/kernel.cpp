// SPDX-License-Identifier: Apache-2.0
#include "sim/model/kernel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moesim {
namespace {

/// Widths of all heads' operands of the products that a kernel multiplies.
std::int64_t product_width(const AttentionHeads& shape) {
  const std::int64_t qk = shape.qk_width, v = shape.v_width;
  return shape.heads * (shape.pass == Pass::forward ? qk + v : 3 * qk + 2 * v);
}

struct FlopsOf {
  Flops operator()(const GroupedGemm& gemm) const {
    const auto rows = std::accumulate(gemm.m.begin(), gemm.m.end(), std::int64_t{0});
    return Flops(2.0 * static_cast<double>(rows) * static_cast<double>(gemm.n) *
                 static_cast<double>(gemm.k));
  }
  Flops operator()(const FusedAttention& attention) const {
    return Flops(2.0 * static_cast<double>(attention.queries) *
                 static_cast<double>(attention.attended) *
                 static_cast<double>(product_width(attention.shape)));
  }
  Flops operator()(const MemoryBound&) const { return Flops(0); }
  Flops operator()(const HostWork&) const { return Flops(0); }
};

struct TrafficOf {
  Bytes operator()(const GroupedGemm& gemm) const {
    if (gemm.wave) return of_wave(gemm, *gemm.wave);
    std::int64_t rows = 0, weights = 0;
    for (const std::int64_t m : gemm.m) {
      if (m == 0) continue;
      rows += m * (gemm.k + gemm.n);
      weights += gemm.n * gemm.k;
    }
    const DataType type = type_of_rows(gemm.type);
    if (type == gemm.type) return bytes_of(rows + weights, type);
    return bytes_of(rows, type) + bytes_of(weights, gemm.type);
  }
  Bytes operator()(const FusedAttention& attention) const {
    if (attention.attended == 0) return Bytes(0);
    const AttentionHeads& shape = attention.shape;
    const std::int64_t widths = shape.qk_width + shape.v_width;
    const std::int64_t key = shape.kv_heads * (shape.latent ? shape.qk_width : widths);
    const std::int64_t keys = attention.keys > 0 ? attention.keys : attention.queries;
    const int operands = shape.pass == Pass::forward ? 1 : 2;
    const std::int64_t elements = attention.queries * shape.heads * widths + keys * key;
    return Bytes(elements * operands * size_of(shape.type));
  }
  Bytes operator()(const MemoryBound& kernel) const { return kernel.read + kernel.written; }
  Bytes operator()(const HostWork&) const { return Bytes(0); }

 private:
  static Bytes of_wave(const GroupedGemm& gemm, const Wave& wave) {
    if (wave.tiles == 0) return Bytes(0);
    std::int64_t rows = 0;
    for (const std::int64_t m : gemm.m) rows += m;
    const auto groups = std::ranges::count_if(wave.rows, [](std::int64_t m) { return m > 0; });
    const Bytes weights = bytes_of(groups * gemm.n * gemm.k, wave.weights);
    const double part = static_cast<double>(wave.tiles) / static_cast<double>(wave.of);
    return bytes_of(rows * (gemm.k + gemm.n), type_of_rows(gemm.type)) +
           Bytes(std::llround(part * static_cast<double>(weights.value)));
  }
};

}  // namespace

GroupedGemm whole_of(const GroupedGemm& wave) {
  GroupedGemm whole = wave;
  whole.m = wave.wave->rows;
  whole.wave->tiles = whole.wave->of;
  return whole;
}

double FusedAttention::queries_per_key() const {
  const double read = static_cast<double>(keys > 0 ? keys : queries);
  return static_cast<double>(queries) * static_cast<double>(attended) / read;
}

Flops flops_of(const Kernel& kernel) { return std::visit(FlopsOf(), kernel); }

Bytes memory_traffic_of(const Kernel& kernel) { return std::visit(TrafficOf(), kernel); }

std::optional<DataType> type_of(const Kernel& kernel) {
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel)) return gemm->type;
  if (const auto* attention = std::get_if<FusedAttention>(&kernel)) return attention->shape.type;
  return std::nullopt;
}

bool is_empty(const Kernel& kernel) {
  if (const auto* host = std::get_if<HostWork>(&kernel)) return host->nanoseconds == 0;
  return memory_traffic_of(kernel).value == 0;
}

GroupedGemm gemm_of_equal_flops(const FusedAttention& attention) {
  return {{attention.queries},
          attention.attended,
          product_width(attention.shape),
          attention.shape.type};
}

}  // namespace moesim
