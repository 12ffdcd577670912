// SPDX-License-Identifier: Apache-2.0
// LPLB (github.com/deepseek-ai/LPLB): replicas on fixed neighbours, their shares from a linear
// program on the exact loads of the very batch; the slots follow earlier loads.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/lplb.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct LplbOptions {
  PlanningOptions when;
  lplb::Wiring wiring;  // empty: a ring of the GPUs of a host in the EP group
  int per_class = 1;
  Seconds solving;
};

class Lplb final : public Serving {
 public:
  Lplb(const PlacementContext& c, const LplbOptions& o, int nodes, const lplb::Layout& initial)
      : Serving(c, o.when, initial.table()),
        nodes_(nodes),
        solving_(o.solving),
        layouts_(cells(), initial) {}
  bool may_be_told() const override { return true; }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    lplb::Layout& layout = layouts_[at.cell];
    layout = lplb::place(eplb::loads_of(seen(at.cell).sum()), layout.wiring, layout.per_class,
                         nodes_, ep());
    return layout.table();
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    const lplb::Layout& layout = layouts_[at.cell];
    return Assignment(
        std::move(slots),
        lplb::shares(layout, lplb::solve(layout, eplb::loads_of(at.loads)), at.loads));
  }
  /// Every batch is solved once its gate has spoken, and dispatch waits for it.
  void finish(LayerDecision& decision, const SlotTable& slots,
              std::span<const StepSlots> steps) const override {
    Serving::finish(decision, slots, steps);
    decision.planning = decision.planning + solving_;
    decision.planning_blocks = true;
    decision.after_gate = true;
  }

 private:
  int nodes_;
  Seconds solving_;
  std::vector<lplb::Layout> layouts_;  // [cell]
};

lplb::Wiring read_wiring(const YamlMap& params) {
  constexpr Range ranks{1, 4096};
  const int kind = params.choice("topology", {"cube", "hypercube", "torus", "ring"}, 0);
  if (kind == 0) return lplb::cube();
  if (kind == 1) return lplb::hypercube();
  if (kind == 2) {
    const int rows = static_cast<int>(params.integer("rows", ranks, 2));
    return lplb::torus(rows, static_cast<int>(params.integer("columns", ranks, 4)));
  }
  const int group = static_cast<int>(params.integer("group", ranks, 0));
  return group > 0 ? lplb::ring(group) : lplb::Wiring{};
}

std::unique_ptr<Placer> make_lplb(const PlacementContext& context, LplbOptions o) {
  const GroupNodes shape = group_nodes(context);
  if (o.wiring.empty()) o.wiring = lplb::ring(shape.gpus_per_node);
  const std::vector<double> even(static_cast<std::size_t>(context.experts), 1.0);
  const lplb::Layout initial = unless_unsuitable(
      [&] { return lplb::place(even, o.wiring, o.per_class, shape.nodes, context.groups.size()); });
  return std::make_unique<Lplb>(context, o, shape.nodes, initial);
}

}  // namespace

// topology: cube (groups of 8 ranks, the default), hypercube (16), torus (rows, columns: 2 x 4) or
// ring (group: ranks, default those of a host); experts_per_class: experts that share a variable of
// the linear program (1).
// solving_time: of every batch and layer, its dispatch waits (default 100 us, published for one
// node, the all-reduce of loads included: it is not simulated).
// interval, first, window, lag: when EPLB orders experts anew, as for eplb (1 each); payload
// (weights), migration (blocks): as for eplb.
PlacementMaker read_lplb(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  LplbOptions o;
  o.when.moves_optimizer = false;
  o.when.interval = static_cast<int>(params.integer("interval", steps, 1));
  o.when.first = static_cast<int>(params.integer("first", steps, 1));
  o.when.window = static_cast<int>(params.integer("window", steps, 1));
  o.when.lag = read_lag(params);
  o.when.moves_optimizer = params.choice("payload", {"state", "weights"}, 1) == 0;
  o.when.migration =
      static_cast<Migration>(params.choice("migration", {"blocks", "overlapped"}, 0));
  o.wiring = read_wiring(params);
  o.per_class = static_cast<int>(params.integer("experts_per_class", {1, 4096}, 1));
  o.solving = params.seconds("solving_time", Seconds(100e-6));
  return [o](const PlacementContext& context) { return make_lplb(context, o); };
}

}  // namespace moesim
