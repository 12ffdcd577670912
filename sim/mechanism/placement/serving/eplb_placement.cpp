// SPDX-License-Identifier: Apache-2.0
// DeepSeek EPLB (github.com/deepseek-ai/EPLB). It leaves the estimate of loads, the time of a
// rebalance and the use of replicas to its caller: those are parameters here.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/replica_use.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct EplbOptions {
  PlanningOptions when;
  int slots = 0;   // per GPU, 0: derived
  int groups = 0;  // of experts, 0: the gate's
  ReplicaUse use = ReplicaUse::any;
};

class Eplb final : public Serving {
 public:
  Eplb(const PlacementContext& c, const EplbOptions& o, const eplb::Shape& shape)
      : Serving(c, o.when, initial(c, shape)), shape_(shape), use_(o.use) {}

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return eplb::rebalance(eplb::loads_of(seen(at.cell).sum()), shape_).table();
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return assign_replicas(slots, at.ranks, at.first_gpu, use_);
  }

 private:
  /// Before any load is known all experts count the same.
  static SlotTable initial(const PlacementContext& c, const eplb::Shape& shape) {
    const std::vector<double> even(static_cast<std::size_t>(c.experts), 1.0);
    return eplb::rebalance(even, shape).table();
  }

  eplb::Shape shape_;
  ReplicaUse use_;
};

}  // namespace

// interval: steps between rebalances (default 1); first: steps before the first (1); window: newest
// steps whose loads are summed (1).
// slots_per_gpu: default the experts of a rank, rounded up, and one more; groups: expert groups
// that hierarchical placement keeps on a node, default the model's gate groups. replicas: any (all
// of the EP group evenly, the default) or node-first. payload: weights (default) or state, what a
// slot holds and migration carries; migration: blocks (default) or overlapped; planning_time (0 us)
// and planning: hidden (default) or blocks.
PlacementMaker read_eplb(const YamlMap& params) {
  EplbOptions o;
  o.when = read_planning_options(params, weights_only());
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.groups = static_cast<int>(params.integer("groups", {1, 4096}, 0));
  o.use = static_cast<ReplicaUse>(params.choice("replicas", replica_use_names, 0));
  return [o](const PlacementContext& context) {
    return std::make_unique<Eplb>(context, o, eplb_shape(context, o.slots, o.groups, "eplb"));
  };
}

}  // namespace moesim
