// SPDX-License-Identifier: Apache-2.0
// Lazarus (arXiv 2407.04656): replicas in proportion to load, placed to outlive failures of ranks
// or of nodes. `moesim failures` says what that pays.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/lazarus.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct LazarusOptions {
  PlanningOptions when;
  int slots = 0;
  int least = 2;            // replicas of every expert
  bool nodes_fail = false;  // whole ones, else single ranks
};

class Lazarus final : public Serving {
 public:
  /// Of `shape` nodes, or ranks if these fail, each is so many ranks.
  struct Room {
    lazarus::Shape shape;
    int ranks = 1;
  };
  Lazarus(const PlacementContext& c, const LazarusOptions& o, const Room& room)
      : Serving(c, o.when, initial(c, o, room)), room_(room), least_(o.least) {}

  static Room room(const PlacementContext& c, const LazarusOptions& o) {
    const int ranks = c.groups.size();
    const int once = (c.experts + ranks - 1) / ranks;
    const int slots = slots_per_gpu(c, o.slots > 0 ? o.slots : once * o.least + 1);
    const int together = o.nodes_fail ? group_nodes(c).gpus_per_node : 1;
    return {{ranks / together, slots * together}, together};
  }
  bool may_be_told() const override { return true; }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    const auto loads = eplb::loads_of(seen(at.cell).sum());
    return placed(loads, room_, least_);
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return Assignment(slots, lazarus::shares(slots, at.loads));
  }

 private:
  /// The experts of a node are dealt out to its ranks in turn.
  static SlotTable placed(const std::vector<double>& loads, const Room& room, int least) {
    const SlotTable nodes = lazarus::place(lazarus::replicas(loads, room.shape, least), room.shape);
    SlotTable table(nodes.size() * static_cast<std::size_t>(room.ranks));
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::size_t next = 0;
      for (const ExpertId expert : nodes[node]) {
        const std::size_t rank = next++ % static_cast<std::size_t>(room.ranks);
        table[node * static_cast<std::size_t>(room.ranks) + rank].push_back(expert);
      }
    }
    return table;
  }
  static SlotTable initial(const PlacementContext& c, const LazarusOptions& o, const Room& room) {
    const std::vector<double> even(static_cast<std::size_t>(c.experts), 1.0);
    return unless_unsuitable([&] { return placed(even, room, o.least); });
  }

  Room room_;
  int least_;
};

}  // namespace

// least_replicas: of every expert (default 2, unstated); slots_per_gpu: default those of a rank's
// experts, rounded up, least_replicas times, and one more. failing: rank (default) or node, what
// holds at most one replica of an expert, because it is lost at once.
// interval (default 200, published), first (200), window (200, unstated), payload (state),
// migration (blocks), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_lazarus(const YamlMap& params) {
  LazarusOptions o;
  PlanningOptions defaults;
  defaults.interval = defaults.first = defaults.window = 200;
  o.when = read_planning_options(params, defaults);
  o.when.lag = read_lag(params);
  o.least = static_cast<int>(params.integer("least_replicas", {1, 4096}, 2));
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.nodes_fail = params.choice("failing", {"rank", "node"}, 0) == 1;
  return [o](const PlacementContext& context) {
    return std::make_unique<Lazarus>(context, o, Lazarus::room(context, o));
  };
}

}  // namespace moesim
