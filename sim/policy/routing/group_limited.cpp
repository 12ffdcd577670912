// SPDX-License-Identifier: Apache-2.0
// The group-limited gate of DeepSeek-V3 on recorded choices: experts in equal groups of consecutive
// ids, of which a token uses few (NVIDIA/Megatron-LM, moe_utils.py, group_limited_topk).
#include <fmt/format.h>

#include "sim/policy/policies.h"
#include "sim/policy/routing/group_limit.h"

namespace moesim {
namespace {

/// The groups of the gate: as given, else the model's.
void fill_groups(GroupLimit& limit, int groups, const RoutingContext& context) {
  const int n = groups > 0 ? groups : context.model.gate_groups;
  const int kept = limit.kept > 0 ? limit.kept : context.model.gate_kept_groups;
  if (n < 2) {
    throw Error(fmt::format("model '{}' has no groups of experts", context.model.name),
                "give 'routing.groups' and 'routing.kept'");
  }
  if (context.experts % n != 0 || kept > n) {
    throw Error(fmt::format("a gate cannot keep {} of {} equal groups of {} experts", kept, n,
                            context.experts));
  }
  auto& group_of = limit.group_of.emplace_back();
  for (int e = 0; e < context.experts; ++e) group_of.push_back(e / (context.experts / n));
  limit.kept = kept;
}

}  // namespace

// groups, kept: of the gate (default: the model's); score: best, max or sum; outside: replace or
// drop.
RoutingMaker read_group_limited(const YamlMap& params) {
  GroupLimit limit;
  const auto groups = static_cast<int>(params.integer("groups", {2, 65535}, 0));
  limit.kept = static_cast<int>(params.integer("kept", {1, 65535}, 0));
  read_group_limit(params, limit);
  return [=](const RoutingContext& context) {
    GroupLimit filled = limit;
    fill_groups(filled, groups, context);
    return std::make_unique<GroupLimited>(std::move(filled), context);
  };
}

}  // namespace moesim
