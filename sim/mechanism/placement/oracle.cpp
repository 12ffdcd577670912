// SPDX-License-Identifier: Apache-2.0
// What planners are measured against: placements that know the future and move experts for nothing.
// No real system has them.
#include <algorithm>
#include <iterator>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/best_slots.h"

namespace moesim {
namespace {

/// The best slots of every EP group for a layer with some loads, one after the other.
Assignment best_assignment(const PlacementContext& context, const std::vector<LoadMatrix>& loads) {
  std::vector<Assignment> assignments;
  const int ep = context.groups.size();
  for (int g = 0; g < context.groups.count(); ++g) {
    LoadHistory history;
    for (const LoadMatrix& step : loads) {
      history.push_back(context.groups.part(step, g).per_expert());
    }
    const SlotTable slots = best_slots(history, context.experts, ep);
    assignments.emplace_back(Placement(context.experts, slots), ep);
  }
  return Assignment::joined(assignments);
}

/// One placement for all simulated steps.
class StaticBest final : public Placer {
 public:
  explicit StaticBest(const PlacementContext& context) {
    for (int layer = 0; layer < context.layers; ++layer) {
      std::vector<LoadMatrix> loads;
      for (int s = 0; s < context.steps; ++s) {
        std::ranges::move(context.recorded(context.first_step + s, layer),
                          std::back_inserter(loads));
      }
      layers_.push_back(best_assignment(context, loads));
    }
  }
  LayerDecision decide(const LayerRoutingNow& now) override {
    return LayerDecision(layers_[static_cast<std::size_t>(now.layer)]);
  }
  bool reacts() const override { return true; }
  bool looks() const override { return false; }

 private:
  std::vector<Assignment> layers_;
};

/// A new placement in every step and microbatch, the best for it.
class Clairvoyant final : public Placer {
 public:
  explicit Clairvoyant(const PlacementContext& context) : context_(context) {}
  LayerDecision decide(const LayerRoutingNow& now) override {
    return LayerDecision(best_assignment(context_, {now.loads}));
  }
  bool reacts() const override { return true; }
  std::vector<FirstPlan> first_plans() const override { return {}; }

 private:
  PlacementContext context_;
};

}  // namespace

PlacementMaker read_static_best(const YamlMap&) {
  return [](const PlacementContext& context) { return std::make_unique<StaticBest>(context); };
}

PlacementMaker read_clairvoyant(const YamlMap&) {
  return [](const PlacementContext& context) { return std::make_unique<Clairvoyant>(context); };
}

}  // namespace moesim
