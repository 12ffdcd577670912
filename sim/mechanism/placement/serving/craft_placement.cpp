// SPDX-License-Identifier: Apache-2.0
// CRAFT (arXiv 2603.28768): after a profile, replicas for the layers where they pay most.
#include "sim/base/rounding.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/replica_use.h"
#include "sim/mechanism/placement/serving/craft.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct CraftOptions {
  PlanningOptions when;  // first: the steps of the profile
  double budget = 0.25;  // further slots of a GPU in a layer, on average
  int most = 2;          // of a GPU in one layer, on average
  ReplicaUse use = ReplicaUse::any;
};

class Craft final : public Serving {
 public:
  Craft(const PlacementContext& c, const CraftOptions& o)
      : Serving(c, o.when, initial(c)),
        o_(o),
        tables_(static_cast<std::size_t>(c.groups.count())) {}

 protected:
  bool due(const GroupLayer& at) const override { return at.steps == options().first; }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    auto& tables = tables_[static_cast<std::size_t>(at.group)];
    if (tables.empty()) {
      const auto layers = static_cast<int>(cells()) / groups().count();
      tables =
          craft::plan(profile(at.group, layers), ep(),
                      static_cast<int>(rounded_down(o_.budget * ep() * layers)), o_.most * ep());
    }
    return tables[static_cast<std::size_t>(at.layer)];
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return assign_replicas(slots, at.ranks, at.first_gpu, o_.use);
  }
  /// The profile is made offline: slots are loaded with the model.
  void move(LayerDecision&, const SlotTable&, const SlotTable&) const override {}

 private:
  /// [layer][expert]: choices of the steps so far.
  std::vector<std::vector<double>> profile(int group, int layers) const {
    std::vector<std::vector<double>> loads;
    for (int layer = 0; layer < layers; ++layer) {
      const auto& window = seen(cell(layer, group));
      loads.push_back(window.empty() ? even(context()) : eplb::loads_of(window.sum()));
    }
    return loads;
  }
  static std::vector<double> even(const PlacementContext& c) {
    return std::vector<double>(static_cast<std::size_t>(c.experts), 1);
  }
  static SlotTable initial(const PlacementContext& c) {
    return craft::place(even(c), {c.groups.size()});
  }

  CraftOptions o_;
  std::vector<std::vector<SlotTable>> tables_;  // [group][layer], once profiled
};

}  // namespace

// profile: steps whose loads are profiled, with every expert once (1). budget: further slots of a
// GPU in a layer, on average over GPUs and layers (0.25); most: in one layer (2). replicas: any
// (default) or node-first. Slots hold weights, and are loaded with the model.
PlacementMaker read_craft(const YamlMap& params) {
  CraftOptions o;
  o.when = weights_only();
  o.when.first = o.when.window = static_cast<int>(params.integer("profile", {1, 1 << 20}, 1));
  o.budget = params.number("budget", {0, 64}, 0.25);
  o.most = static_cast<int>(params.integer("most", {1, 64}, 2));
  o.use = static_cast<ReplicaUse>(params.choice("replicas", replica_use_names, 0));
  return [o](const PlacementContext& context) { return std::make_unique<Craft>(context, o); };
}

}  // namespace moesim
