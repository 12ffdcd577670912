// SPDX-License-Identifier: Apache-2.0
// A token may use the experts of few nodes, DeepSeek-V3's limit where its groups are nodes (arXiv
// 2412.19437), or of few GPUs. Experts are where the placement of the step puts them.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/group_limit.h"

namespace moesim {
namespace {

RoutingMaker limited_to(GroupLimit limit, const YamlMap& params) {
  read_group_limit(params, limit);
  return
      [=](const RoutingContext& context) { return std::make_unique<GroupLimited>(limit, context); };
}

}  // namespace

// nodes: that a token may use; score: best, max or sum; outside: replace or drop; gate: full or
// two-stage.
RoutingMaker read_node_limited(const YamlMap& params) {
  GroupLimit limit{.by = GroupOf::node};
  limit.kept = static_cast<int>(params.integer("nodes", {1, 65535}));
  return limited_to(limit, params);
}

// gpus: that a token may use (default: the fewest that hold its choices); others as above.
RoutingMaker read_gpu_limited(const YamlMap& params) {
  GroupLimit limit{.by = GroupOf::gpu};
  limit.kept = static_cast<int>(params.integer("gpus", {1, 65535}, 0));
  return limited_to(limit, params);
}

}  // namespace moesim
