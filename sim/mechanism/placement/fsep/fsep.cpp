// SPDX-License-Identifier: Apache-2.0
// Fully sharded expert parallelism (LAER-MoE, arXiv 2602.11686; PKU-DAIR/Hetu-Galvatron, branch
// laer-moe): every rank keeps a shard of every expert and restores whole experts before each use,
// so that a new layout costs nothing. A planner chooses it from recent routing.
#include <utility>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/fsep/fsep_planner.h"
#include "sim/mechanism/placement/fsep/fsep_transport.h"
#include "sim/mechanism/placement/fsep/lite_routing.h"
#include "sim/mechanism/placement/group_planner.h"

namespace moesim {
namespace {

struct FsepOptions {
  FsepPlannerOptions planner;
  std::optional<int> slots;
  PlanningOptions when;
  std::optional<Seconds> planning;
};

class Fsep final : public GroupPlanner {
 public:
  Fsep(const PlacementContext& context, const FsepOptions& options)
      : Fsep(context, options, FsepPlanner(context, options.planner, options.slots)) {}

  std::vector<FirstPlan> first_plans() const override {
    return follows_ ? GroupPlanner::first_plans() : std::vector<FirstPlan>();
  }
  std::string forced() const override { return planner_.forced(); }

 private:
  Fsep(const PlacementContext& context, const FsepOptions& options, const FsepPlanner& planner)
      : GroupPlanner(context, when(options, planner.grid()), planner.first(), Keeps::by_rank),
        follows_(planner.replans() && options.planner.planning != FsepPlanning::fsdp_ep),
        planner_(planner),
        restore_(fsep_restore(context, planner.grid())),
        memory_(fsep_memory(context, planner.grid())) {
    if (context.backward) reduce_ = fsep_reduce(context, planner.grid());
  }

  static PlanningOptions when(const FsepOptions& options, const fsep::SlotGrid& grid) {
    PlanningOptions result = options.when;
    if (options.planning) {
      result.planning = *options.planning;
    } else if (options.planner.planning == FsepPlanning::laer) {
      result.planning = published_planning_time(grid.ranks, grid.slots_per_rank);
    }
    return result;
  }

  /// A layer's plan is made after its forward pass and fetched by the next micro-batch.
  bool due(const GroupLayer& at) const override {
    return planner_.replans() && GroupPlanner::due(at);
  }
  bool plans_between_microbatches() const override { return true; }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return planner_.replan(at.group, seen(at.cell).sum(), at.slots);
  }

  /// Lite routing of this step's own choices.
  Assignment assign(const GroupStep& at, Placement slots) override {
    const fsep::Reach reach(slots, planner_.grid().ranks_per_node);
    auto shares = fsep::lite_shares(at.loads, reach);
    return Assignment(std::move(slots), shares);
  }

  /// Shards are restored into any layout.
  void move(LayerDecision&, const SlotTable&, const SlotTable&) const override {}
  void finish(LayerDecision& decision, const SlotTable&,
              std::span<const StepSlots>) const override {
    decision.planned = decision.planned && follows_;
    decision.gather = {restore_};
    if (context().backward) {
      decision.regather = {restore_};
      decision.reduce = {reduce_};
      decision.gradients = GradientLayout::sharded;
    }
    decision.memory = memory_;
  }

  bool follows_;  // whether layouts follow loads
  FsepPlanner planner_;
  ParamExchange restore_, reduce_;
  std::vector<ExpertMemory> memory_;
};

/// A parameter that the planner does not look at would silently do nothing.
void refuse(const YamlMap& params, const std::vector<std::string>& keys, bool refused) {
  for (const std::string& key : keys) {
    const auto value = refused ? params.find(key) : std::nullopt;
    if (!value) continue;
    value->error("'placement." + key + "' has no effect with this planner", "leave it out");
  }
}

FsepPlannerOptions read_planner(const YamlMap& params) {
  FsepPlannerOptions o;
  o.planning = static_cast<FsepPlanning>(params.choice("planner", fsep_planning_names, 0));
  const bool laer = o.planning == FsepPlanning::laer;
  o.even = params.boolean("even", o.even);
  o.queue = params.boolean("pq", o.queue);
  o.cluster_bandwidths = params.choice("bandwidths", {"published", "cluster"}, 0) == 1;
  o.checkpointing = params.boolean("checkpointing", o.checkpointing);
  o.per_token_slot = params.seconds("token_time", o.per_token_slot);
  refuse(params, {"even", "pq", "bandwidths", "checkpointing", "token_time"}, !laer);
  const auto queue = params.find("pq");
  if (queue && !o.even && !o.queue) {
    queue->error("no candidate is left: 'even' is false too", "let 'even' or 'pq' be true");
  }
  return o;
}

}  // namespace

// planner: laer (default), even, initial, fsdp-ep, flex, smart; slots of a rank (default: a quarter
// of the experts); interval (1; smart: 20), first and window (5) in steps; planning_time (default
// of laer: published_planning_time), planning: hidden or blocks. Of laer: even, pq (candidates),
// bandwidths: published or cluster, checkpointing, token_time (forward of one token-slot).
PlacementMaker read_fsep(const YamlMap& params) {
  constexpr Range counts{1, 1 << 20};
  FsepOptions o;
  o.planner = read_planner(params);
  if (params.find("slots")) o.slots = static_cast<int>(params.integer("slots", counts));
  const FsepPlanning planning = o.planner.planning;
  const bool fixed = planning == FsepPlanning::even || planning == FsepPlanning::initial;
  const bool blind = fixed || planning == FsepPlanning::fsdp_ep;
  const int interval = planning == FsepPlanning::smart ? 20 : 1;
  o.when.interval = static_cast<int>(params.integer("interval", counts, interval));
  o.when.first = static_cast<int>(params.integer("first", counts, o.when.first));
  o.when.window = static_cast<int>(params.integer("window", counts, 5));
  if (params.find("planning_time")) o.planning = params.seconds("planning_time");
  o.when.planning_blocks = params.choice("planning", {"hidden", "blocks"}, 0) == 1;
  refuse(params, {"first"}, fixed);
  refuse(params, {"interval", "window", "planning_time", "planning"}, blind);
  return [o](const PlacementContext& context) { return std::make_unique<Fsep>(context, o); };
}

}  // namespace moesim
