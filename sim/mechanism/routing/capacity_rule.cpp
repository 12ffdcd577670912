// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/routing/capacity_rule.h"

#include <algorithm>
#include <cmath>

namespace moesim {

// tutel: microsoft/tutel, tutel/impls/fast_dispatch.py, without its alignment.
// megatron: NVIDIA/Megatron-LM, megatron/core/transformer/moe/moe_utils.py.
// deepspeed: deepspeedai/DeepSpeed, deepspeed/moe/sharded_moe.py, min_capacity 4 of the MoE layer.
// mesh: tensorflow/mesh moe.py; flaxformer: google/flaxformer moe_layers.py, its usual floor of 4.
// fastmoe_gshard: laekov/fastmoe, GShardGate.
std::int64_t Capacity::rows(std::int64_t tokens, int experts, int top_k) const {
  const double f = std::abs(factor);
  const auto s = static_cast<double>(tokens);
  const auto e = static_cast<double>(experts);
  const auto k = static_cast<double>(top_k);
  const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  constexpr std::int64_t floor = 4;
  switch (rule) {
    case CapacityRule::tutel:
      return top_k * whole(f * static_cast<double>((tokens + experts - 1) / experts));
    case CapacityRule::megatron:
      return whole(std::ceil(s * k / e * f));
    case CapacityRule::deepspeed:
      return std::max(floor, whole(std::ceil(s / e * (f * k))));
    case CapacityRule::mesh:
      return std::max(floor, std::min(tokens, whole(s * f / e)));
    case CapacityRule::flaxformer:
      return std::max(floor, whole(std::round(f * s / e)));
    case CapacityRule::fastmoe_gshard:
      return whole(std::ceil(f * s)) * top_k / experts;
  }
  return 0;
}

// Megatron ranks only by token; so does DeepSpeed beyond its top-2 gate. FastMoE's atomics race:
// choice by choice is our order of them.
bool Capacity::choice_by_choice(int top_k) const {
  return rule != CapacityRule::megatron && !(rule == CapacityRule::deepspeed && top_k > 2);
}

Capacity read_capacity(const YamlMap& params, NegativeFactor negative) {
  Capacity capacity;
  capacity.rule = static_cast<CapacityRule>(params.choice(
      "rule", {"tutel", "megatron", "deepspeed", "mesh", "flaxformer", "fastmoe-gshard"}, 0));
  const auto factor = params.get("factor");
  if (!factor) return capacity;
  const bool any = negative == NegativeFactor::allowed && capacity.rule == CapacityRule::tutel;
  capacity.factor = factor->number(any ? Range{} : positive);
  if (capacity.factor == 0) {
    factor->error("'" + factor->path() + "' of 0 fixes no capacity",
                  "set padding: max to pad to the largest load");
  }
  return capacity;
}

}  // namespace moesim
