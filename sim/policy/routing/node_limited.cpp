// SPDX-License-Identifier: Apache-2.0
// A token may use the experts of few nodes: DeepSeek-V3's limit where its groups are nodes (arXiv
// 2412.19437). Experts are taken to lie as the contiguous placement puts them.
#include "sim/policy/policies.h"
#include "sim/policy/routing/contiguous_experts.h"
#include "sim/policy/routing/group_limit.h"

namespace moesim {

// nodes: that a token may use; score: best, max or sum; outside: replace or drop.
RoutingMaker read_node_limited(const YamlMap& params) {
  GroupLimit limit;
  limit.kept = static_cast<int>(params.integer("nodes", {1, 65535}));
  read_group_limit(params, limit);
  return [=](const RoutingContext& context) {
    GroupLimit filled = limit;
    const std::vector<GpuId> gpus = contiguous_gpus(context.experts, context.ep);
    for (int first = 0; first < context.topology.gpu_count(); first += context.ep) {
      auto& group_of = filled.group_of.emplace_back();
      for (const GpuId gpu : gpus) {
        group_of.push_back(context.topology.host_of(GpuId(first + gpu.value)));
      }
    }
    filled.ranks_per_set = context.ep;
    return std::make_unique<GroupLimited>(std::move(filled), context.model.top_k);
  };
}

}  // namespace moesim
