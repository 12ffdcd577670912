// SPDX-License-Identifier: Apache-2.0
// The delivery check: rows out, expert GEMMs, rows back, layer by layer and pass by pass.
#include "sim/plan/delivery.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "sim/plan/check.h"
#include "sim/plan/expert_check.h"
#include "sim/plan/journey.h"
#include "sim/plan/mistakes.h"
#include "sim/plan/op_order.h"

namespace moesim {
namespace {

/// The ops of one layer and pass that move or compute its tokens, in list order.
struct TokenOps {
  std::vector<OpId> dispatch, experts, combine;
  bool padded = false;  // experts may compute padding too
};

using LayerPass = std::pair<int, Pass>;

std::map<LayerPass, TokenOps> group_ops(const Plan& plan) {
  std::map<LayerPass, TokenOps> groups;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    const LayerPass key{op.key.layer, op.key.pass};
    if (op.exchange() && carries_tokens(op.stream)) {
      groups[key].padded |= op.exchange()->padded;
      if (op.key.stage == Stage::dispatch) groups[key].dispatch.push_back(id);
      if (op.key.stage == Stage::combine) groups[key].combine.push_back(id);
    } else if (op.key.stage == Stage::experts && op.kernels() &&
               std::holds_alternative<GroupedGemm>(op.kernels()->each().front())) {
      groups[key].experts.push_back(id);
    }
  }
  return groups;
}

/// Rejects routing that names tokens, experts or GPUs that do not exist.
bool check_routing(const Plan& plan, const LayerRouting& routing, Mistakes& mistakes) {
  const auto bad = [&](const std::string& what) {
    mistakes.add(fmt::format("routing of layer {}: {}", routing.layer, what));
    return false;
  };
  if (routing.assignment == nullptr) return bad("it has no assignment");
  const Placement& placement = routing.assignment->placement();
  if (placement.gpus() != plan.gpus) {
    return bad(fmt::format("a placement on {} GPUs for a plan of {}", placement.gpus(), plan.gpus));
  }
  if (routing.source.size() != routing.chosen.size()) {
    return bad(
        fmt::format("{} sources for {} tokens", routing.source.size(), routing.chosen.size()));
  }
  for (std::size_t token = 0; token < routing.chosen.size(); ++token) {
    const GpuId source = routing.source[token];
    if (source.value < 0 || source.value >= plan.gpus) {
      return bad(fmt::format("token {} starts on GPU {} of {}", token, source.value, plan.gpus));
    }
    if (routing.chosen[token].size() > max_top_k) {
      return bad(fmt::format("token {} makes {} choices, the most is {}", token,
                             routing.chosen[token].size(), max_top_k));
    }
    for (const ExpertId expert : routing.chosen[token]) {
      if (expert.value >= placement.experts()) {
        return bad(fmt::format("token {} chose expert {} of {}", token, expert.value,
                               placement.experts()));
      }
    }
  }
  return true;
}

void check_pass(const Plan& plan, const LayerRouting& routing, Pass pass, const TokenOps& ops,
                OpOrder& order, Mistakes& mistakes) {
  const std::string where = fmt::format("layer {} {}", routing.layer, name_of(pass));
  const auto follow = [&](Journey::Direction direction, const std::vector<OpId>& exchanges) {
    Journey journey(plan, routing, direction, where, mistakes);
    for (const OpId id : exchanges) {
      check_rows_fill_traffic(plan, id, mistakes);
      journey.follow(id);
    }
    journey.finish();
    return journey.carried_by_slot();
  };
  const CarriedBySlot arrived = follow(Journey::Direction::out, ops.dispatch);
  const CarriedBySlot taken = follow(Journey::Direction::back, ops.combine);
  check_experts({plan, routing.assignment->placement(), ops.padded, ops.experts, where}, arrived,
                taken, order, mistakes);
}

}  // namespace

void check_delivery(const Plan& plan, const std::vector<LayerRouting>& routing) {
  check_plan(plan);
  Mistakes mistakes;
  OpOrder order(plan);
  std::map<LayerPass, TokenOps> groups = group_ops(plan);
  std::set<int> layers;
  for (const LayerRouting& layer : routing) {
    if (!layers.insert(layer.layer).second) {
      mistakes.add(fmt::format("the routing of layer {} is given twice", layer.layer));
      continue;
    }
    if (!check_routing(plan, layer, mistakes)) continue;
    if (!groups.count({layer.layer, Pass::forward}) &&
        !groups.count({layer.layer, Pass::backward})) {
      mistakes.add(fmt::format("the plan moves no tokens of layer {}", layer.layer));
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto ops = groups.find({layer.layer, pass});
      if (ops != groups.end()) check_pass(plan, layer, pass, ops->second, order, mistakes);
    }
  }
  for (const auto& [key, ops] : groups) {
    if (layers.insert(key.first).second) {
      mistakes.add(
          fmt::format("the plan moves tokens of layer {}, whose routing is not given", key.first));
    }
  }
  mistakes.throw_if_any();
}

}  // namespace moesim
