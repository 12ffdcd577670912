// SPDX-License-Identifier: Apache-2.0
// The group-limited gate of DeepSeek-V3 on recorded choices: experts in equal groups of consecutive
// ids; a token uses few of them (NVIDIA/Megatron-LM, moe_utils.py, group_limited_topk).
#include <fmt/format.h>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/group_limit.h"

namespace moesim {
namespace {

/// The groups of the gate: as given, else the model's.
GroupLimit filled(GroupLimit limit, const RoutingContext& context) {
  if (limit.groups == 0) limit.groups = context.model.gate_groups;
  if (limit.kept == 0) limit.kept = context.model.gate_kept_groups;
  if (limit.groups < 2) {
    throw Error(fmt::format("model '{}' has no groups of experts", context.model.name),
                "give 'routing.groups' and 'routing.kept'");
  }
  if (context.experts % limit.groups != 0 || limit.kept > limit.groups) {
    throw Error(fmt::format("a gate cannot keep {} of {} equal groups of {} experts", limit.kept,
                            limit.groups, context.experts));
  }
  return limit;
}

RoutingMaker limited_to(GroupLimit limit, const YamlMap& params) {
  read_group_limit(params, limit);
  return
      [=](const RoutingContext& context) { return std::make_unique<GroupLimited>(limit, context); };
}

}  // namespace

// groups, kept: of the gate (default: the model's); score: best, max or sum; outside: replace or
// drop; gate: full or two-stage.
RoutingMaker read_group_limited(const YamlMap& params) {
  GroupLimit limit;
  limit.groups = static_cast<int>(params.integer("groups", {2, 65535}, 0));
  limit.kept = static_cast<int>(params.integer("kept", {1, 65535}, 0));
  read_group_limit(params, limit);
  return [=](const RoutingContext& context) {
    return std::make_unique<GroupLimited>(filled(limit, context), context);
  };
}

// A token may use the experts of few nodes, DeepSeek-V3's limit where its groups are nodes (arXiv
// 2412.19437), or of few GPUs. Experts are where the placement of the step puts them.
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
