// SPDX-License-Identifier: Apache-2.0
// Replication by predicted load. No publication describes it, every step is our interpretation; the
// closest are GRACE-MoE (arXiv 2509.25041) and MoE-GPS (arXiv 2506.07366).
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/adjacent_layers.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/prediction.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

enum class Predictor { last, ema, adjacent, oracle };

struct PredictiveOptions {
  PlanningOptions when;
  Predictor predictor = Predictor::ema;
  double beta = 0.9;
  int extra_slots = 1;
};

class Predictive final : public Serving {
 public:
  Predictive(const PlacementContext& c, const PredictiveOptions& o, SlotTable base)
      : Serving(c, o.when, base),
        o_(o),
        base_(std::move(base)),
        cells_(cells(), Cell{Window<LoadMatrix>(2, o.when.lag), prediction::FadingLoad::ema(o.beta),
                             std::vector<double>(base_.size())}),
        adjacent_(c.layers, c.experts) {}
  bool reacts() const override { return o_.predictor == Predictor::oracle; }
  std::vector<FirstPlan> first_plans() const override {
    return {{.after = options().first_plan()}};
  }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    const std::vector<double> expected = predict(at);
    if (expected.empty()) return std::nullopt;  // nothing is that old yet
    SlotTable extra;
    for (std::size_t g = 0; g < base_.size(); ++g) {
      extra.emplace_back(at.slots[g].begin() + static_cast<std::ptrdiff_t>(base_[g].size()),
                         at.slots[g].end());
    }
    const prediction::Copies copies = prediction::replicate(expected, base_, extra, o_.extra_slots);
    cells_[at.cell].gpu_loads = copies.gpu_loads;
    return prediction::table(base_, copies);
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return Assignment(
        slots, prediction::shares(slots, at.loads, cells_[at.cell].gpu_loads, at.ranks.hosts()));
  }
  void observe(const GroupStep& at) override {
    Cell& mine = cells_[at.cell];
    mine.newest.add(at.loads, at.begins);
    if (mine.newest.empty()) return;
    if (at.begins) {
      mine.ema.add(mine.newest.newest());
    } else if (options().lag == 1) {
      mine.ema.add(at.loads, false);
    }
  }
  void observe_all(const LayerRoutingNow& now, bool) override {
    if (o_.predictor == Predictor::adjacent) adjacent_.observe(now);
  }

 private:
  struct Cell {
    Window<LoadMatrix> newest;
    prediction::FadingLoad ema;     // of those known
    std::vector<double> gpu_loads;  // [rank] predicted
  };

  /// Loads of the step that follows `steps` others; empty when unknown.
  std::vector<double> predict(const GroupLayer& at) const {
    const Cell& mine = cells_[at.cell];
    switch (o_.predictor) {
      case Predictor::oracle: {
        const std::vector<LoadMatrix> microbatches = context().recorded(at.step, at.layer);
        LoadMatrix all = microbatches.front();
        for (std::size_t m = 1; m < microbatches.size(); ++m) all += microbatches[m];
        return eplb::loads_of(groups().part(all, at.group));
      }
      case Predictor::adjacent:
        if (at.layer > 0) {  // that layer has seen this step already: the newest is not for us
          const Cell& before = cells_[cell(at.layer - 1, at.group)];
          return adjacent_.expect(at.layer, eplb::loads_of(before.newest.newest(1)));
        }
        [[fallthrough]];
      case Predictor::last:
        if (mine.newest.empty()) return {};
        return eplb::loads_of(mine.newest.newest());
      case Predictor::ema:
        break;
    }
    return mine.ema.load();
  }

  PredictiveOptions o_;
  SlotTable base_;
  std::vector<Cell> cells_;  // [cell]
  AdjacentLayers adjacent_;
};

}  // namespace

// predictor: last (loads of one step), ema (default; beta: 0.9), adjacent (from the layer before
// and the profile of all steps so far; the first layer: last) or oracle (the recorded loads of the
// very step, an upper bound). lag: steps that loads are old, at least 1 (default 1; for last and
// ema); extra_slots: for copies on every GPU (1); interval (1), first (1): steps between decisions,
// and before the first. migration: overlapped (default: a layer's experts wait for their own
// copies) or blocks. payload (weights), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_predictive(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  PredictiveOptions o;
  PlanningOptions defaults = weights_only();
  defaults.migration = Migration::overlapped;
  o.when = read_transfer_options(params, defaults);
  o.when.interval = static_cast<int>(params.integer("interval", steps, 1));
  o.when.first = static_cast<int>(params.integer("first", steps, 1));
  o.predictor =
      static_cast<Predictor>(params.choice("predictor", {"last", "ema", "adjacent", "oracle"}, 1));
  if (o.predictor == Predictor::ema) o.beta = params.number("beta", {0, 1}, 0.9);
  if (o.predictor == Predictor::ema || o.predictor == Predictor::last) {
    o.when.lag = read_lag(params);
  }
  o.extra_slots = static_cast<int>(params.integer("extra_slots", {0, 4096}, 1));
  return [o](const PlacementContext& c) {
    const int ranks = c.groups.size();
    SlotTable base =
        unless_unsuitable([&] { return contiguous_placement(c.experts, ranks, ranks).table(); });
    return std::make_unique<Predictive>(c, o, std::move(base));
  };
}

}  // namespace moesim
