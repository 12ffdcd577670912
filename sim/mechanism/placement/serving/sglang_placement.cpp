// SPDX-License-Identifier: Apache-2.0
// SGLang's online balancer (eplb_manager.py, expert_location*.py): EPLB on the loads since the last
// rebalance, layers in chunks, unless GPUs are used evenly enough.
#include <numeric>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/replica_rule.h"
#include "sim/mechanism/placement/serving/serving.h"
#include "sim/mechanism/placement/serving/sglang.h"

namespace moesim {
namespace {

struct SglangOptions {
  PlanningOptions when;
  int slots = 0;
  int groups = 0;
  double threshold = 1;
  int layers_per_chunk = 0;  // 0: all layers at once
  ReplicaRule use{ReplicaRule::Kind::sglang_static};
};

class Sglang final : public Serving {
 public:
  Sglang(const PlacementContext& c, const SglangOptions& o, const eplb::Shape& shape)
      : Serving(c, o.when, initial(c, shape)),
        o_(o),
        shape_(shape),
        cells_(cells(), {{}, initial(c, shape), std::nullopt}),
        chunks_(o.layers_per_chunk > 0 ? (c.layers + o.layers_per_chunk - 1) / o.layers_per_chunk
                                       : 1),
        rebalances_(static_cast<std::size_t>(c.groups.count())),
        ended_(rebalances_.size()) {
    for (Cell& cell : cells_) cell.loads.resize(static_cast<std::size_t>(c.experts));
  }
  std::vector<FirstPlan> first_plans() const override {
    return {{.after = options().interval + (chunks_ > 1 ? 1 : 0)}};
  }

  bool may_be_told() const override { return true; }

 protected:
  bool due(const GroupLayer&) const override { return true; }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    const auto group = static_cast<std::size_t>(at.group);
    if (at.layer == 0) {
      const int passes = at.told ? options().interval : at.steps - ended_[group];
      rebalances_[group] = sglang::rebalances_after(passes, mean_utilisation(at.group),
                                                    o_.threshold, options().interval);
      if (rebalances_[group]) ended_[group] = at.steps + (chunks_ > 1 ? chunks_ : 0);
    }
    Cell& mine = cells_[at.cell];
    if (rebalances_[group]) {
      // Upstream waits a pass before each of several chunks, and counts on behind the last.
      const int waits = chunks_ > 1 && !at.told ? at.layer / o_.layers_per_chunk + 1 : 0;
      mine.coming = Coming{at.steps + waits, mine.loads};
      mine.loads.assign(mine.loads.size(), 0.0);
    }
    if (!mine.coming || mine.coming->step > at.steps) return std::nullopt;
    mine.slots = eplb::rebalance(mine.coming->loads, shape_).table();
    mine.coming.reset();
    return mine.slots;
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return o_.use.assign(at, slots);
  }
  void observe(const GroupStep& at) override {
    std::vector<double>& sums = cells_[at.cell].loads;
    const auto counts = at.loads.per_expert();
    for (std::size_t e = 0; e < sums.size(); ++e) sums[e] += static_cast<double>(counts[e]);
  }

 private:
  /// A rebalance that takes effect at a step.
  struct Coming {
    int step;
    std::vector<double> loads;
  };
  struct Cell {
    std::vector<double> loads;  // [expert] since the last rebalance
    SlotTable slots;
    std::optional<Coming> coming;
  };

  static SlotTable initial(const PlacementContext& c, const eplb::Shape& shape) {
    return slots_in_turn(c.experts, shape.gpus, shape.slots / shape.gpus);
  }

  /// Over the layers, copies of an expert sharing its load evenly (unstated: ours).
  double mean_utilisation(int group) const {
    double sum = 0;
    for (int layer = 0; layer < context().layers; ++layer) {
      const Cell& mine = cells_[cell(layer, group)];
      std::vector<double> share = mine.loads;
      std::vector<int> copies(share.size());
      for (const auto& gpu : mine.slots) {
        for (const ExpertId e : gpu) ++copies[e.index()];
      }
      for (std::size_t e = 0; e < share.size(); ++e) share[e] /= copies[e];
      std::vector<double> gpus;
      for (const auto& gpu : mine.slots) {
        gpus.push_back(std::accumulate(gpu.begin(), gpu.end(), 0.0, [&](double load, ExpertId e) {
          return load + share[e.index()];
        }));
      }
      sum += sglang::utilisation(gpus);
    }
    return sum / context().layers;
  }

  SglangOptions o_;
  eplb::Shape shape_;
  std::vector<Cell> cells_;  // [cell]
  int chunks_;
  std::vector<bool> rebalances_;  // [EP group], in this step
  std::vector<int> ended_;        // [EP group] steps when the last rebalance has moved all layers
};

}  // namespace

// interval: steps between rebalances (default 1000); threshold: none when mean over largest GPU
// load is above it (1: never skipped); layers_per_chunk: layers that move after one step (0: all).
// slots_per_gpu, groups: as for eplb. Upstream adds no slots unless told
// (ep_num_redundant_experts); slot p holds expert p modulo experts before the first rebalance.
// replicas: static (a rank's own copy, else one on its node, else a fixed shuffled one; default) or
// dynamic (the same, but drawn per choice). Upstream's third rule, lp, is missing.
// payload (weights), migration (blocks), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_sglang(const YamlMap& params) {
  SglangOptions o;
  o.when = read_transfer_options(params, weights_only());
  o.when.interval = static_cast<int>(params.integer("interval", {1, 1 << 20}, 1000));
  o.threshold = params.number("threshold", {0, 1}, 1);
  o.layers_per_chunk = static_cast<int>(params.integer("layers_per_chunk", {0, 4096}, 0));
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.groups = static_cast<int>(params.integer("groups", {1, 4096}, 0));
  if (params.choice("replicas", {"static", "dynamic"}, 0) == 1) {
    o.use.kind = ReplicaRule::Kind::sglang_dynamic;
  }
  return [o](const PlacementContext& c) {
    return std::make_unique<Sglang>(c, o, eplb_shape(c, o.slots, o.groups));
  };
}

}  // namespace moesim
