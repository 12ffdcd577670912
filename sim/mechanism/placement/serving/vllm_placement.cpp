// SPDX-License-Identifier: Apache-2.0
// vLLM's online balancer (eplb_state.py, policy/default.py, base_router.py): EPLB on the loads of a
// window of passes; the place of a choice in the batch picks the replica. A policy of vLLM Ascend
// may plan instead.
#include <fmt/format.h>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/flash_lb.h"
#include "sim/mechanism/placement/serving/serving.h"
#include "sim/mechanism/placement/serving/swift_balancer.h"
#include "sim/mechanism/placement/serving/vllm.h"

namespace moesim {
namespace {

enum class VllmPolicy { eplb, swift_balancer, flash_lb };

const std::vector<std::string> policy_names = {"eplb", "swift-balancer", "flash-lb"};

struct VllmOptions {
  PlanningOptions when;
  bool says_interval = true;
  int slots = 0;
  int groups = 0;
  vllm::Rule rule = vllm::Rule::place;
  VllmPolicy policy = VllmPolicy::eplb;
};

class Vllm final : public Serving {
 public:
  Vllm(const PlacementContext& c, const VllmOptions& o, const eplb::Shape& shape)
      : Serving(c, o.when, slots_in_turn(c.experts, shape.gpus, shape.slots / shape.gpus)),
        shape_(shape),
        rule_(o.rule),
        policy_(o.policy),
        swift_(static_cast<std::size_t>(c.groups.count())),
        flash_(cells()) {}
  /// Throws Unsuitable if the policy does not plan for slots as many as these.
  void require_different_experts() const {
    if (policy_ == VllmPolicy::eplb || shape_.slots / shape_.gpus <= context().experts) return;
    throw Unsuitable(fmt::format("'{}' cannot fill {} slots of a GPU with {} different experts",
                                 policy_names[static_cast<std::size_t>(policy_)],
                                 shape_.slots / shape_.gpus, context().experts),
                     "at most as many slots per GPU as experts");
  }
  bool may_be_told() const override { return true; }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    if (policy_ == VllmPolicy::swift_balancer) return plan_swift(at);
    if (policy_ == VllmPolicy::flash_lb) return plan_flash(at);
    return vllm::rebalance(eplb::loads_of(seen(at.cell).sum()), shape_, at.slots);
  }
  /// Unlike upstream, which counts replicas in EPLB's order, by ascending slot.
  Assignment assign(const GroupStep& at, Placement slots) override {
    return assign_by_choice(at, slots, [&](GpuId, ExpertId, auto choices, auto replicas) {
      return vllm::shares(rule_, choices, at.ids.top_k(), replicas);
    });
  }

 private:
  /// What the layers of an EP group gain together, from the first that is asked on, decides: the
  /// ones before have slots on their way, and have seen this step already.
  struct SwiftPlans {
    int step = -1, first = 0;
    std::vector<swift_balancer::Rebalanced> layers;  // from `first` on
    bool moves = false;
  };

  std::optional<SlotTable> plan_swift(const GroupLayer& at) {
    SwiftPlans& mine = swift_[static_cast<std::size_t>(at.group)];
    if (mine.step != at.steps) {
      mine = {at.steps, at.layer, {}, false};
      for (int l = at.layer; l < context().layers; ++l) {
        mine.layers.push_back(swift_balancer::rebalance(
            eplb::loads_of(seen(cell(l, at.group)).sum()), groups().part(slots(l), at.group)));
      }
      mine.moves = swift_balancer::worth_moving(mine.layers);
    }
    if (!mine.moves) return std::nullopt;
    return mine.layers[static_cast<std::size_t>(at.layer - mine.first)].slots;
  }

  std::optional<SlotTable> plan_flash(const GroupLayer& at) {
    flash_lb::StepLoads loads;
    for (int age = seen(at.cell).size() - 1; age >= 0; --age) {
      loads.push_back(eplb::loads_of(seen(at.cell).newest(age)));
    }
    return flash_[at.cell].rebalance(loads, at.slots).value_or(at.slots);
  }

  eplb::Shape shape_;
  vllm::Rule rule_;
  VllmPolicy policy_;
  std::vector<SwiftPlans> swift_;       // [EP group]
  std::vector<flash_lb::Layer> flash_;  // [cell]
};

/// vLLM Ascend (eplb_updator.py at 182b75ea): collects loads of a window, plans for some steps,
/// gives every layer a step to change in, and begins anew.
PlanningOptions ascend_cycle(const VllmOptions& o, int layers) {
  PlanningOptions when = o.when;
  when.first = when.window + when.lag - 1;
  if (o.says_interval) return when;
  when.interval = when.first;
  if (when.migration == Migration::asynchronous) {
    when.interval += (layers + when.layers_per_step - 1) / when.layers_per_step;
  }
  return when;
}

}  // namespace

// interval: steps between rebalances, the first after a quarter (default 3000); window: newest
// steps whose loads are summed (1000); lag: how old they are (1). Slot p holds expert p modulo
// experts before the first.
// slots_per_gpu, groups: as for eplb. Upstream adds no slots unless told (num_redundant_experts).
// rule: place (token x k + position) or token-hash, modulo the replicas; versions differ.
// policy: eplb (default), swift-balancer or flash-lb. These have no groups and act once a window
// (600) is known (lag: 51, since they plan for 50 steps), again after as many steps and one for
// every layer that moves behind steps.
// payload (weights), migration (blocks), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_vllm(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  VllmOptions o;
  o.when = read_transfer_options(params, weights_at_leisure());
  o.says_interval = params.find("interval").has_value();
  o.when.interval = static_cast<int>(params.integer("interval", steps, 3000));
  o.when.first = vllm::first_rebalance(o.when.interval);
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.policy = static_cast<VllmPolicy>(params.choice("policy", policy_names, 0));
  const bool ascend = o.policy != VllmPolicy::eplb;
  o.when.window = static_cast<int>(params.integer("window", steps, ascend ? 600 : 1000));
  o.when.lag = read_lag(params, ascend ? 51 : 1);
  if (!ascend) {
    o.groups = static_cast<int>(params.integer("groups", {1, 4096}, 0));
  } else {
    o.groups = 1;
  }
  o.rule = static_cast<vllm::Rule>(params.choice("rule", {"place", "token-hash"}, 0));
  return [o](const PlacementContext& c) {
    VllmOptions here = o;
    if (o.policy != VllmPolicy::eplb) here.when = ascend_cycle(o, c.layers);
    auto placer = std::make_unique<Vllm>(c, here, eplb_shape(c, o.slots, o.groups));
    placer->require_different_experts();
    return placer;
  };
}

}  // namespace moesim
