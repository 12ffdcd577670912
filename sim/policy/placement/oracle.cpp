// SPDX-License-Identifier: Apache-2.0
// What planners are measured against: placements that know the future and move experts for nothing.
// No real system has them.
#include "sim/balance/best_slots.h"
#include "sim/policy/placement/lagged.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// The best slots of every run of `ep` ranks for some steps of a layer.
SlotTable best_of_runs(const PlacementContext& context, int layer, int first_step, int steps) {
  std::vector<LoadMatrix> loads;
  for (int s = 0; s < steps; ++s) loads.push_back(context.recorded(first_step + s, layer));
  SlotTable slots;
  for (int first = 0; first < context.gpus; first += context.ep) {
    LoadHistory history;
    for (const LoadMatrix& step : loads) {
      history.push_back(rows_of(step, first, context.ep).per_expert());
    }
    SlotTable run = best_slots(history, context.experts, context.ep);
    std::move(run.begin(), run.end(), std::back_inserter(slots));
  }
  return slots;
}

/// One placement for the whole trace.
class StaticBest final : public Placer {
 public:
  explicit StaticBest(const PlacementContext& context) : context_(context) {
    for (int layer = 0; layer < context.layers; ++layer) {
      const SlotTable slots = best_of_runs(context, layer, context.first_step, context.steps);
      layers_.emplace_back(Placement(context.experts, slots), context.ep);
    }
  }
  LayerDecision decide(const LayerRoutingNow& now) override {
    return LayerDecision(layers_[static_cast<std::size_t>(now.layer)]);
  }
  bool reacts() const override { return true; }
  bool looks() const override { return false; }

 private:
  PlacementContext context_;
  std::vector<Assignment> layers_;
};

/// A new placement in every step, the best for it.
class Clairvoyant final : public Placer {
 public:
  explicit Clairvoyant(const PlacementContext& context) : context_(context) {}
  LayerDecision decide(const LayerRoutingNow& now) override {
    const SlotTable slots = best_of_runs(context_, now.layer, now.step, 1);
    return LayerDecision(Assignment(Placement(context_.experts, slots), context_.ep));
  }
  bool reacts() const override { return true; }
  bool looks() const override { return false; }

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
