// SPDX-License-Identifier: Apache-2.0
// DeepSeek EPLB (github.com/deepseek-ai/EPLB). It leaves the estimate of loads, the time of a
// rebalance and the use of replicas to its caller: those are parameters here.
#include <map>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/replica_use.h"
#include "sim/mechanism/placement/serving/activated.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct EplbOptions {
  PlanningOptions when;
  int slots = 0;   // per GPU, 0: derived
  int groups = 0;  // of experts, 0: the gate's
  ReplicaUse use = ReplicaUse::any;
  bool fewest_activated = false;  // in place of `use`: METRO
};

class Eplb final : public Serving {
 public:
  Eplb(const PlacementContext& c, const EplbOptions& o, const eplb::Shape& shape)
      : Serving(c, o.when, initial(c, shape)),
        shape_(shape),
        use_(o.use),
        fewest_activated_(o.fewest_activated) {}
  bool may_be_told() const override { return true; }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return eplb::rebalance(eplb::loads_of(seen(at.cell).sum()), shape_).table();
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    if (fewest_activated_) return fewest_activated(slots, at.loads.per_expert());
    std::optional<Assignment>& known = last_[at.group];
    if (!known || known->placement() != slots) {
      known = assign_replicas(slots, at.ranks, at.first_gpu, use_);
    }
    return *known;
  }

 private:
  /// Before any load is known all experts count the same.
  static SlotTable initial(const PlacementContext& c, const eplb::Shape& shape) {
    const std::vector<double> even(static_cast<std::size_t>(c.experts), 1.0);
    return eplb::rebalance(even, shape).table();
  }

  eplb::Shape shape_;
  ReplicaUse use_;
  bool fewest_activated_;
  /// By EP group, because layers have the same slots before their first plans, and most of their
  /// memory is for who uses which.
  std::map<int, std::optional<Assignment>> last_;
};

}  // namespace

// interval: steps between rebalances (default 1); first: steps before the first (1); window: newest
// steps whose loads are summed (1).
// slots_per_gpu: default the experts of a rank, rounded up, and one more; groups: expert groups
// that hierarchical placement keeps on a node, default the model's gate groups. replicas: any (all
// of the EP group evenly, the default), node-first, or fewest-activated (one for a batch: METRO).
// payload: weights (default) or state, what a slot holds and migration carries; migration: blocks
// (default), overlapped, or asynchronous: behind steps, layer after layer, a layer's slots used
// once they are there; then layers_per_step (1) move at once, and a GPU receives experts_per_step
// (0: all) of each in a step; planning_time (0 us) and planning: hidden (default) or blocks.
PlacementMaker read_eplb(const YamlMap& params) {
  EplbOptions o;
  o.when = read_planning_options(params, weights_at_leisure());
  o.when.lag = read_lag(params);
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.groups = static_cast<int>(params.integer("groups", {1, 4096}, 0));
  std::vector<std::string> uses = replica_use_names;
  uses.emplace_back("fewest-activated");
  const int use = params.choice("replicas", uses, 0);
  o.fewest_activated = use == static_cast<int>(replica_use_names.size());
  if (!o.fewest_activated) o.use = static_cast<ReplicaUse>(use);
  return [o](const PlacementContext& context) {
    return std::make_unique<Eplb>(context, o, eplb_shape(context, o.slots, o.groups));
  };
}

}  // namespace moesim
