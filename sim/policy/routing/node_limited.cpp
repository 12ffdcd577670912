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
    for (const RankSpace& ranks : context.groups.spaces()) {
      auto& group_of = filled.group_of.emplace_back();
      for (const GpuId rank : contiguous_gpus(context.experts, ranks.size())) {
        group_of.push_back(ranks.hosts().group_of(rank));
      }
    }
    return std::make_unique<GroupLimited>(std::move(filled), context);
  };
}

}  // namespace moesim
