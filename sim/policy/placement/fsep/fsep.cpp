// SPDX-License-Identifier: Apache-2.0
// Fully sharded expert parallelism (LAER-MoE, arXiv 2602.11686; PKU-DAIR/Hetu-Galvatron, branch
// laer-moe): every rank keeps a shard of every expert and restores whole experts before each use,
// so that a new layout costs nothing. A planner chooses it from recent routing.
#include <deque>
#include <utility>

#include "sim/balance/fsep/lite_routing.h"
#include "sim/policy/placement/fsep/fsep_planner.h"
#include "sim/policy/placement/fsep/fsep_transport.h"
#include "sim/policy/placement/lagged.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

struct FsepOptions {
  FsepPlannerOptions planner;
  std::optional<int> slots;
  int interval = 1;
  int first = 1;
  int window = 5;
  std::optional<Seconds> planning;
  bool planning_blocks = false;
};

class Fsep final : public Placer {
 public:
  Fsep(const PlacementContext& context, const FsepOptions& options)
      : context_(context),
        options_(options),
        planner_(context, options.planner, options.slots),
        restore_(fsep_restore(context, planner_.grid())),
        memory_(fsep_memory(context, planner_.grid())) {
    if (context.backward) reduce_ = fsep_reduce(context, planner_.grid());
    SlotTable slots;
    for (int run = 0; run < runs(); ++run) append(slots, planner_.first());
    layers_.assign(static_cast<std::size_t>(context.layers), {std::move(slots), {}, 0});
  }

  /// A layer's plan is made after its forward pass and fetched by the next micro-batch.
  LayerDecision decide(const LayerRoutingNow& now) override {
    Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
    const bool replans = due(layer);
    if (replans) layer.slots = replan(layer);
    LayerDecision decision(lite_routing(layer.slots, now.loads));
    decision.gather = {restore_};
    if (context_.backward) {
      decision.regather = {restore_};
      decision.reduce = {reduce_};
      decision.gradients = GradientLayout::sharded;
    }
    decision.planned = replans && plans();
    if (replans) decision.planning = planning_time();
    decision.planning_blocks = options_.planning_blocks;
    decision.memory = memory_;
    ++layer.steps;
    layer.history.push_back(now.loads);
    if (layer.history.size() > static_cast<std::size_t>(options_.window)) layer.history.pop_front();
    return decision;
  }

  std::vector<FirstPlan> first_plans() const override {
    if (!plans()) return {};
    return {{.after = options_.first}};
  }

 private:
  struct Layer {
    SlotTable slots;
    std::deque<LoadMatrix> history;
    int steps = 0;  // seen so far
  };

  /// Whether layouts follow loads.
  bool plans() const {
    return planner_.replans() && options_.planner.planning != FsepPlanning::fsdp_ep;
  }
  int runs() const { return context_.gpus / context_.ep; }

  static void append(SlotTable& slots, SlotTable run) {
    std::move(run.begin(), run.end(), std::back_inserter(slots));
  }

  bool due(const Layer& layer) const {
    const int since = layer.steps - options_.first;
    return planner_.replans() && since >= 0 && since % options_.interval == 0;
  }

  SlotTable replan(const Layer& layer) const {
    LoadMatrix sum = layer.history.front();
    for (std::size_t i = 1; i < layer.history.size(); ++i) sum += layer.history[i];
    SlotTable slots;
    for (int run = 0; run < runs(); ++run) {
      const int begin = run * context_.ep;
      const auto current = layer.slots.begin() + begin;
      append(slots, planner_.replan(begin, rows_of(sum, begin, context_.ep),
                                    SlotTable(current, current + context_.ep)));
    }
    return slots;
  }

  /// Lite routing of this step's own choices, in every run.
  Assignment lite_routing(const SlotTable& slots, const LoadMatrix& loads) const {
    std::vector<std::vector<Shares>> shares;
    for (int run = 0; run < runs(); ++run) {
      const int begin = run * context_.ep;
      const int first_slot = run * planner_.grid().slots();
      const auto first = slots.begin() + begin;
      const Placement placement(context_.experts, SlotTable(first, first + context_.ep));
      const fsep::Reach reach(placement, planner_.grid().ranks_per_node);
      auto of_run = fsep::lite_shares(rows_of(loads, begin, context_.ep), reach);
      for (auto& of_rank : of_run) {
        for (Shares& of_expert : of_rank) {
          for (Share& share : of_expert) share.slot = SlotId(first_slot + share.slot.value);
        }
      }
      std::move(of_run.begin(), of_run.end(), std::back_inserter(shares));
    }
    return Assignment(Placement(context_.experts, slots), shares);
  }

  Seconds planning_time() const {
    if (options_.planning) return *options_.planning;
    if (options_.planner.planning != FsepPlanning::laer) return Seconds(0);
    return published_planning_time(planner_.grid().ranks, planner_.grid().slots_per_rank);
  }

  PlacementContext context_;
  FsepOptions options_;
  FsepPlanner planner_;
  ParamExchange restore_, reduce_;
  std::vector<ExpertMemory> memory_;
  std::vector<Layer> layers_;
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

// planner: laer (default), even, initial, fsdp-ep, flex, smart; slots of a rank (default: as few as
// suit); interval (1; smart: 20), first and window (5) in steps; planning_time (default of laer:
// published_planning_time), planning: hidden or blocks. Of laer: even, pq (candidates), bandwidths:
// published or cluster, checkpointing, token_time (forward of one token-slot).
PlacementMaker read_fsep(const YamlMap& params) {
  constexpr Range counts{1, 1 << 20};
  FsepOptions o;
  o.planner = read_planner(params);
  if (params.find("slots")) o.slots = static_cast<int>(params.integer("slots", counts));
  const FsepPlanning planning = o.planner.planning;
  const bool fixed = planning == FsepPlanning::even || planning == FsepPlanning::initial;
  const bool blind = fixed || planning == FsepPlanning::fsdp_ep;
  const int interval = planning == FsepPlanning::smart ? 20 : 1;
  o.interval = static_cast<int>(params.integer("interval", counts, interval));
  o.first = static_cast<int>(params.integer("first", counts, o.first));
  o.window = static_cast<int>(params.integer("window", counts, o.window));
  if (params.find("planning_time")) o.planning = params.seconds("planning_time");
  o.planning_blocks = params.choice("planning", {"hidden", "blocks"}, 0) == 1;
  refuse(params, {"first"}, fixed);
  refuse(params, {"interval", "window", "planning_time", "planning"}, blind);
  return [o](const PlacementContext& context) { return std::make_unique<Fsep>(context, o); };
}

}  // namespace moesim
