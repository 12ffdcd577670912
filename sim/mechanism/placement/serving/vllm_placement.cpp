// SPDX-License-Identifier: Apache-2.0
// vLLM's online balancer (eplb_state.py, policy/default.py, base_router.py): EPLB on the loads of a
// window of passes; the place of a choice in the batch picks the replica.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/serving.h"
#include "sim/mechanism/placement/serving/vllm.h"

namespace moesim {
namespace {

struct VllmOptions {
  PlanningOptions when;
  int slots = 0;
  int groups = 0;
  vllm::Rule rule = vllm::Rule::place;
};

class Vllm final : public Serving {
 public:
  Vllm(const PlacementContext& c, const VllmOptions& o, const eplb::Shape& shape)
      : Serving(c, o.when, slots_in_turn(c.experts, shape.gpus, shape.slots / shape.gpus)),
        shape_(shape),
        rule_(o.rule) {}
  std::vector<FirstPlan> first_plans() const override {
    return {{.after = vllm::first_rebalance(options().interval)}};
  }

 protected:
  bool due(const GroupLayer& at) const override {
    return vllm::rebalances_after(at.steps, options().interval);
  }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return vllm::rebalance(eplb::loads_of(seen(at.cell).sum()), shape_, at.slots);
  }
  /// Unlike upstream, which counts replicas in EPLB's order, by ascending slot.
  Assignment assign(const GroupStep& at, Placement slots) override {
    return assign_by_choice(at, slots, [&](GpuId, ExpertId, auto choices, auto replicas) {
      return vllm::shares(rule_, choices, at.ids.top_k(), replicas);
    });
  }

 private:
  eplb::Shape shape_;
  vllm::Rule rule_;
};

}  // namespace

// interval: steps between rebalances, the first after a quarter (default 3000); window: newest
// steps whose loads are summed (1000). Slot p holds expert p modulo experts before the first.
// slots_per_gpu, groups: as for eplb. Upstream adds no slots unless told (num_redundant_experts).
// rule: place (token x k + position) or token-hash, modulo the replicas; versions differ.
// payload (weights), migration (blocks), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_vllm(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  VllmOptions o;
  o.when = read_transfer_options(params, weights_at_leisure());
  o.when.interval = static_cast<int>(params.integer("interval", steps, 3000));
  o.when.window = static_cast<int>(params.integer("window", steps, 1000));
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.groups = static_cast<int>(params.integer("groups", {1, 4096}, 0));
  o.rule = static_cast<vllm::Rule>(params.choice("rule", {"place", "token-hash"}, 0));
  return [o](const PlacementContext& c) {
    return std::make_unique<Vllm>(c, o, eplb_shape(c, o.slots, o.groups, "vllm"));
  };
}

}  // namespace moesim
