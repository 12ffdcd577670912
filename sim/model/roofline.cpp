// SPDX-License-Identifier: Apache-2.0
#include "sim/model/roofline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace moesim {
namespace {

bool many_groups(const GroupedGemm& gemm) {
  return std::ranges::count_if(gemm.m, [](std::int64_t m) { return m > 0; }) > 1;
}

/// flop x losses
Flops with_losses(const Roofline& roofline, const GroupedGemm& gemm, const OpType& op) {
  const bool over_rows = op.role == Role::wgrad;
  const double more = many_groups(gemm) && !over_rows ? roofline.group_rows : 0;
  double rows = 0;
  for (const std::int64_t m : gemm.m) {
    if (m > 0) rows += static_cast<double>(m) + more + (over_rows ? roofline.half_sum : 0);
  }
  const double loss =
      over_rows ? 1 / roofline.wgrad : 1 + roofline.half_sum / static_cast<double>(gemm.k);
  return Flops(2.0 * rows * static_cast<double>(gemm.n) * static_cast<double>(gemm.k) * loss);
}

Flops with_losses(const Roofline& roofline, const FusedAttention& attention) {
  const AttentionHeads& shape = attention.shape;
  const double width = (shape.qk_width + shape.v_width) / 2.0;
  const double slower = (shape.pass == Pass::backward ? roofline.backward : 1) *
                        (shape.qk_width != shape.v_width ? roofline.uneven : 1);
  return flops_of(attention) * ((1 + roofline.half_keys / static_cast<double>(attention.attended)) *
                                (1 + roofline.half_width / width) / slower);
}

Flops with_losses(const Roofline& roofline, const Kernel& kernel, const OpType& op) {
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel)) return with_losses(roofline, *gemm, op);
  return with_losses(roofline, std::get<FusedAttention>(kernel));
}

/// Bytes of a decode besides: each sequence reads whole tiles of keys, and queries and results pass
/// through further kernels.
Bytes of_decode(const Roofline& roofline, const Kernel& kernel) {
  const auto* attention = std::get_if<FusedAttention>(&kernel);
  if (attention == nullptr || !attention->is_decode()) return Bytes(0);
  FusedAttention no_queries = *attention;
  no_queries.queries = 0;
  const auto keys = static_cast<double>(memory_traffic_of(no_queries).value);
  const double queries = static_cast<double>(memory_traffic_of(kernel).value) - keys;
  const double tiles = roofline.half_keys / static_cast<double>(attention->attended);
  return Bytes(std::llround(keys * tiles + queries * roofline.query_passes));
}

/// The rows of a group, with those that fill its last tile; kernels that do not fill it up compute
/// `more` besides in every tile.
std::int64_t rows_computed(std::int64_t rows, const Wave& wave, double more) {
  const std::int64_t filled = (rows + wave.fill - 1) / wave.fill * wave.fill;
  if (wave.fill == wave.tile) return filled;
  const std::int64_t tiles = (rows + wave.tile - 1) / wave.tile;
  return filled + std::llround(static_cast<double>(tiles) * more);
}

Seconds together(Seconds compute, Seconds memory, double sharpness) {
  const Seconds longer = std::max(compute, memory);
  if (std::isinf(sharpness)) return longer;
  const double ratio = std::min(compute, memory) / longer;
  return longer * std::pow(1 + std::pow(ratio, sharpness), 1 / sharpness);
}

}  // namespace

KernelTime Roofline::time(const Kernel& kernel, const OpType& op, FlopsPerSecond peak,
                          BytesPerSecond bandwidth, Bytes more) const {
  KernelTime time;
  time.launch = launch;
  time.compute = with_losses(*this, kernel, op) / (peak * efficiency);
  time.memory =
      (memory_traffic_of(kernel) + of_decode(*this, kernel) + more) / (bandwidth * memory);
  time.total = launch + together(time.compute, time.memory, sharpness);
  return time;
}

KernelTime Roofline::time_of_wave(const GroupedGemm& gemm, const OpType& op, FlopsPerSecond peak,
                                  BytesPerSecond bandwidth) const {
  const GroupedGemm whole = whole_of(gemm);
  GroupedGemm filled = whole;
  Roofline exact = *this;
  exact.group_rows = 0;
  if (op.role != Role::wgrad) {  // these sum over the rows, which fill nothing
    for (std::int64_t& m : filled.m) m = rows_computed(m, *whole.wave, group_rows);
  }
  const double part = static_cast<double>(gemm.wave->tiles) / static_cast<double>(gemm.wave->of);
  KernelTime time;
  time.launch = gemm.wave->starts ? launch : Seconds(0);
  time.compute = with_losses(exact, filled, op) / (peak * efficiency) * part;
  time.memory = memory_traffic_of(whole) / (bandwidth * memory) * part;
  time.total = time.launch + together(time.compute, time.memory, sharpness);
  return time;
}

const Roofline* FittedKernels::find(const Kernel& kernel) const {
  const auto in = [&](const ByType& fitted, DataType type) {
    const auto found = find_type(fitted, type);
    return found == fitted.end() ? nullptr : &found->second;
  };
  if (const auto* attending = std::get_if<FusedAttention>(&kernel)) {
    const Roofline* own = nullptr;
    if (attending->shape.latent) {
      own = in(latent_decode, attending->shape.type);
    } else if (attending->is_decode()) {
      own = in(decode, attending->shape.type);
    }
    return own != nullptr ? own : in(attention, attending->shape.type);
  }
  const auto* gemms = std::get_if<GroupedGemm>(&kernel);
  if (gemms == nullptr) return nullptr;
  const auto of_type = [&](DataType type) {
    const Roofline* own = gemms->wave           ? in(tiles, type)
                          : many_groups(*gemms) ? in(grouped_gemm, type)
                                                : nullptr;
    return own != nullptr ? own : in(gemm, type);
  };
  const Roofline* own = of_type(gemms->type);
  // A type of experts has no kernels but those of groups: they compute a GPU's single expert, too.
  if (own == nullptr) own = in(grouped_gemm, gemms->type);
  return own != nullptr ? own : of_type(type_of_rows(gemms->type));
}

}  // namespace moesim
