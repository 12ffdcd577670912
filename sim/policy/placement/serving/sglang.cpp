// SPDX-License-Identifier: Apache-2.0
// SGLang's online balancer (eplb_manager.py, expert_location*.py): EPLB on the loads since the last
// rebalance, layers in chunks, unless GPUs are used evenly enough.
#include "sim/balance/serving/sglang.h"

#include <numeric>

#include "sim/policy/placement/serving/serving.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

struct SglangOptions {
  LaggedOptions lagged;
  int slots = 0;
  int groups = 0;
  double threshold = 1;
  int layers_per_chunk = 0;  // 0: all layers at once
  bool dynamic = false;      // replicas drawn per choice
};

class Sglang final : public Serving {
 public:
  Sglang(const PlacementContext& c, const SglangOptions& o, const eplb::Shape& shape)
      : Serving(c, o.lagged, initial(c, shape)),
        o_(o),
        shape_(shape),
        cells_(cells(), {{}, initial(c, shape), std::nullopt}),
        rebalances_(static_cast<std::size_t>(runs())) {
    for (Cell& cell : cells_) cell.loads.resize(static_cast<std::size_t>(c.experts));
  }
  std::vector<FirstPlan> first_plans() const override { return {{.after = options().interval}}; }

 protected:
  std::optional<SlotTable> replan(int layer, int run, int steps, const SlotTable&) override {
    if (layer == 0) {
      rebalances_[static_cast<std::size_t>(run)] =
          sglang::rebalances_after(steps, mean_utilisation(run), o_.threshold, options().interval);
    }
    Cell& cell = cells_[at(layer, run)];
    if (rebalances_[static_cast<std::size_t>(run)]) {
      const int chunk = o_.layers_per_chunk > 0 ? layer / o_.layers_per_chunk : 0;
      cell.coming = Coming{steps + chunk, cell.loads};
      cell.loads.assign(cell.loads.size(), 0.0);
    }
    if (!cell.coming || cell.coming->step > steps) return std::nullopt;
    cell.slots = eplb::rebalance(cell.coming->loads, shape_).table();
    cell.coming.reset();
    return cell.slots;
  }
  Assignment assign(const Placement& placement, const LayerRoutingNow& now) override {
    if (o_.dynamic) {
      return assign_by_choice(placement, context().ep, now,
                              [](GpuId rank, ExpertId expert, auto choices, auto replicas) {
                                return sglang::dynamic_shares(choices, replicas, rank, expert);
                              });
    }
    return assign_by_run(placement, context().ep,
                         [&](int, const Placement& slots) { return fixed(slots, now.layer); });
  }
  void observe(int layer, int run, const LoadMatrix& loads) override {
    std::vector<double>& sums = cells_[at(layer, run)].loads;
    const auto counts = loads.per_expert();
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
    return slots_in_turn(c.experts, c.ep, shape.slots / c.ep);
  }

  /// Over the layers, copies of an expert sharing its load evenly (unstated: ours).
  double mean_utilisation(int run) const {
    double sum = 0;
    for (int layer = 0; layer < context().layers; ++layer) {
      const Cell& cell = cells_[at(layer, run)];
      std::vector<double> share = cell.loads;
      std::vector<int> copies(share.size());
      for (const auto& gpu : cell.slots) {
        for (const ExpertId e : gpu) ++copies[e.index()];
      }
      for (std::size_t e = 0; e < share.size(); ++e) share[e] /= copies[e];
      std::vector<double> gpus;
      for (const auto& gpu : cell.slots) {
        gpus.push_back(std::accumulate(gpu.begin(), gpu.end(), 0.0, [&](double load, ExpertId e) {
          return load + share[e.index()];
        }));
      }
      sum += sglang::utilisation(gpus);
    }
    return sum / context().layers;
  }

  static std::vector<std::vector<Shares>> fixed(const Placement& slots, int layer) {
    std::vector<std::vector<Shares>> shares;
    for (const auto& of_rank : sglang::static_slots(slots, layer)) {
      auto& row = shares.emplace_back();
      for (const SlotId slot : of_rank) row.push_back({{slot, 1}});
    }
    return shares;
  }

  SglangOptions o_;
  eplb::Shape shape_;
  std::vector<Cell> cells_;       // [layer and run]
  std::vector<bool> rebalances_;  // [run], in this step
};

}  // namespace

// interval: steps between rebalances (default 1000); threshold: none when mean over largest GPU
// load is above it (1: never skipped); layers_per_chunk: layers that move after one step (0: all).
// slots_per_gpu, groups: as for eplb. Upstream adds no slots unless told
// (ep_num_redundant_experts); slot p holds expert p modulo experts before the first rebalance.
// replicas: static (a rank's own copy, else a fixed shuffled one; default) or dynamic (drawn per
// choice). Upstream's third rule, lp, is missing.
// payload (weights), migration (blocks), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_sglang(const YamlMap& params) {
  SglangOptions o;
  o.lagged = read_transfer_options(params, weights_only());
  o.lagged.interval = static_cast<int>(params.integer("interval", {1, 1 << 20}, 1000));
  o.threshold = params.number("threshold", {0, 1}, 1);
  o.layers_per_chunk = static_cast<int>(params.integer("layers_per_chunk", {0, 4096}, 0));
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.groups = static_cast<int>(params.integer("groups", {1, 4096}, 0));
  o.dynamic = params.choice("replicas", {"static", "dynamic"}, 0) == 1;
  return [o](const PlacementContext& c) {
    return std::make_unique<Sglang>(c, o, eplb_shape(c, o.slots, o.groups, "sglang"));
  };
}

}  // namespace moesim
