// SPDX-License-Identifier: Apache-2.0
// Lazarus (arXiv 2407.04656): replicas in proportion to load, placed to outlive failures. What
// fails is one rank here; failures themselves are not simulated.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/lazarus.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct LazarusOptions {
  PlanningOptions when;
  int slots = 0;
  int least = 2;  // replicas of every expert
};

class Lazarus final : public Serving {
 public:
  Lazarus(const PlacementContext& c, const LazarusOptions& o, const lazarus::Shape& shape)
      : Serving(c, o.when, initial(c, o, shape)), shape_(shape), least_(o.least) {}

  static lazarus::Shape shape(const PlacementContext& c, const LazarusOptions& o) {
    const int ranks = c.groups.size();
    const int once = (c.experts + ranks - 1) / ranks;
    return {ranks, slots_per_gpu(c, o.slots > 0 ? o.slots : once * o.least + 1, "lazarus")};
  }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    const auto loads = eplb::loads_of(seen(at.cell).sum());
    return lazarus::place(lazarus::replicas(loads, shape_, least_), shape_);
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return Assignment(slots, lazarus::shares(slots, at.loads));
  }

 private:
  static SlotTable initial(const PlacementContext& c, const LazarusOptions& o,
                           const lazarus::Shape& shape) {
    const std::vector<double> even(static_cast<std::size_t>(c.experts), 1.0);
    return unless_unsuitable(
        [&] { return lazarus::place(lazarus::replicas(even, shape, o.least), shape); });
  }

  lazarus::Shape shape_;
  int least_;
};

}  // namespace

// least_replicas: of every expert (default 2, unstated); slots_per_gpu: default those of a rank's
// experts, rounded up, least_replicas times, and one more.
// interval (default 200, published), first (200), window (200, unstated), payload (state),
// migration (blocks), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_lazarus(const YamlMap& params) {
  LazarusOptions o;
  PlanningOptions defaults;
  defaults.interval = defaults.first = defaults.window = 200;
  o.when = read_planning_options(params, defaults);
  o.least = static_cast<int>(params.integer("least_replicas", {1, 4096}, 2));
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  return [o](const PlacementContext& context) {
    return std::make_unique<Lazarus>(context, o, Lazarus::shape(context, o));
  };
}

}  // namespace moesim
