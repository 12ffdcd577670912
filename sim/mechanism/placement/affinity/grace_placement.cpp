// SPDX-License-Identifier: Apache-2.0
// GRACE-MoE (arXiv 2509.25041): after a profile, experts that go together share nodes and GPUs, and
// hot ones of the heaviest GPU are copied.
#include <fmt/format.h>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/grace.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct GraceOptions {
  PlanningOptions when;  // first: the steps of the profile
  double ratio = 0.15;
  GraceChoice choice = GraceChoice::topology_aware;
  GraceCopyLoad copy_load = GraceCopyLoad::conserved;
  std::uint64_t seed = 1;
  bool offline = true;  // its slots are loaded with the model instead of moved
};

class Grace final : public Serving {
 public:
  Grace(const PlacementContext& c, const GraceOptions& o, GroupNodes nodes,
        const SlotTable& initial)
      : Serving(c, o.when, initial),
        o_(o),
        nodes_(nodes),
        cells_(cells(), Cell{PairMatrix(c.experts),
                             std::vector<std::int64_t>(static_cast<std::size_t>(c.experts)),
                             std::vector<double>(static_cast<std::size_t>(c.groups.size()))}) {}

 protected:
  bool due(const GroupLayer& at) const override { return at.steps == options().first; }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    Cell& mine = cells_[at.cell];
    const SlotTable primaries =
        place_grace(mine.affinity, nodes_.nodes, nodes_.gpus_per_node, o_.ratio, o_.seed);
    const GraceReplicas replicas = replicate_grace(mine.loads, primaries, o_.copy_load);
    mine.predicted = replicas.predicted;
    return with_replicas(primaries, replicas);
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return Assignment(
        slots, grace_shares(slots, cells_[at.cell].predicted, nodes_.gpus_per_node, o_.choice));
  }
  void move(LayerDecision& decision, const SlotTable& before,
            const SlotTable& after) const override {
    if (!o_.offline) Serving::move(decision, before, after);
  }
  /// Loads, and co-choices of the tokens while the profile lasts.
  void observe(const GroupStep& at) override {
    Cell& mine = cells_[at.cell];
    const auto counts = at.loads.per_expert();
    for (std::size_t e = 0; e < mine.loads.size(); ++e) mine.loads[e] += counts[e];
    if (at.steps >= options().first) return;
    for (const auto& runs : at.batch.ranks) {
      for (const TokenRun& run : runs) {
        for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
          add(at.ids, t, mine.affinity);
        }
      }
    }
  }

 private:
  struct Cell {
    PairMatrix affinity;
    std::vector<std::int64_t> loads;  // [expert]
    std::vector<double> predicted;    // [rank]
  };

  static void add(const IdRows& ids, std::int64_t token, PairMatrix& affinity) {
    for (int i = 0; i < ids.top_k(); ++i) {
      for (int j = 0; j < ids.top_k(); ++j) {
        const int a = ids.at(token, i), b = ids.at(token, j);
        if (a == b || a >= affinity.experts() || b >= affinity.experts()) continue;  // dropped
        ++affinity.at(ExpertId(a), ExpertId(b));
      }
    }
  }

  GraceOptions o_;
  GroupNodes nodes_;
  std::vector<Cell> cells_;  // [cell]
};

}  // namespace

// profile: steps whose co-choices and loads are profiled; experts are as in `contiguous` until
// then, and stay from then on (default 1). profiling: offline (default, as in the paper: the slots
// are loaded with the model) or online (experts move there).
// ratio: how far the experts of a GPU may be from the mean (0.15, published); seed of the
// clustering (1). replicas: topology-aware (default: the own GPU's, else weighted in the node, else
// weighted) or weighted. copy_load: conserved (default) or published, the load a copy is expected
// to take. payload (weights) and, online, migration (blocks), planning_time (0 us) and planning
// (hidden): as for eplb.
PlacementMaker read_grace(const YamlMap& params) {
  GraceOptions o;
  o.offline = params.choice("profiling", {"offline", "online"}, 0) == 0;
  o.when = read_transfer_options(params, weights_only());
  for (const char* key : {"migration", "planning_time", "planning"}) {
    const auto value = o.offline ? params.find(key) : std::nullopt;
    if (!value) continue;
    value->error(fmt::format("'placement.{}' has no effect: the profile is made offline", key),
                 fmt::format("say profiling: online, or leave '{}' out", key));
  }
  o.when.first = static_cast<int>(params.integer("profile", {1, 1 << 20}, 1));
  o.ratio = params.number("ratio", {0, 1}, 0.15);
  o.seed = static_cast<std::uint64_t>(params.integer("seed", {0, 1 << 30}, 1));
  o.choice = static_cast<GraceChoice>(params.choice("replicas", {"weighted", "topology-aware"}, 1));
  o.copy_load =
      static_cast<GraceCopyLoad>(params.choice("copy_load", {"conserved", "published"}, 0));
  return [o](const PlacementContext& c) {
    const GroupNodes nodes = group_nodes(c);
    const int ranks = c.groups.size();
    const SlotTable initial =
        unless_unsuitable([&] { return contiguous_placement(c.experts, ranks, ranks).table(); });
    return std::make_unique<Grace>(c, o, nodes, initial);
  };
}

}  // namespace moesim
