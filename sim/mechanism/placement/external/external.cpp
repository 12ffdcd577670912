// SPDX-License-Identifier: Apache-2.0
// A placement that a program of the user's decides: docs/external-policies.md has the protocol.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/external/planner_process.h"
#include "sim/mechanism/placement/serving/replica_rule.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct ExternalOptions {
  PlanningOptions when;
  ReplicaRule rule;
  int slots = 0;          // per GPU, 0: derived
  bool by_rank = false;   // loads of every source rank, not only their sum
  bool splits = false;    // it also says how choices are shared by replicas
  bool measured = false;  // what it takes is planning time
};

class External final : public Serving {
 public:
  External(const PlacementContext& c, const ExternalOptions& o, int slots,
           std::shared_ptr<PlannerProcess> process)
      : Serving(c, o.when, slots_in_turn(c.experts, c.groups.size(), slots),
                o.by_rank ? Keeps::by_rank : Keeps::totals),
        o_(o),
        process_(std::move(process)) {
    const nlohmann::ordered_json hello = greeting(c, slots, group_nodes(c));
    SlotTable start = process_->first(hello, c.experts, slots_in_turn(c.experts, ep(), slots));
    for (int layer = 0; layer < c.layers; ++layer) start_with(layer, start);
  }

 protected:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    nlohmann::ordered_json asked = asked_of("place", at);
    LoadMatrix sum;
    const Window<LoadMatrix>& steps = seen(at.cell);
    if (steps.size() > 1) sum = steps.sum();
    const LoadMatrix& loads = steps.size() > 1 ? sum : steps.newest();
    if (!o_.by_rank) asked["loads"] = loads.per_expert();
    auto slots = process_->slots(asked, at.slots, context().experts, o_.by_rank ? &loads : nullptr);
    spent_ += process_->took().value;
    return slots;
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    if (!o_.splits) return o_.rule.assign(at, slots);
    nlohmann::ordered_json asked = asked_of("split", at);
    asked["slots"] = table_of(slots.table());
    Assignment shared = process_->shares(asked, std::move(slots), &at.loads);
    spent_ += process_->took().value;
    return shared;
  }
  void finish(LayerDecision& decision, const SlotTable& slots,
              std::span<const StepSlots> steps) const override {
    Serving::finish(decision, slots, steps);
    if (o_.measured) decision.planning = Seconds(decision.planning.value + spent_);
    if (o_.splits) decision.planning_blocks = decision.after_gate = true;
    spent_ = 0;
  }

 private:
  nlohmann::ordered_json asked_of(const char* what, const GroupLayer& at) const {
    return {{"do", what},
            {"step", at.step},
            {"layer", context().numbers[static_cast<std::size_t>(at.layer)]},
            {"group", at.group}};
  }
  static nlohmann::ordered_json greeting(const PlacementContext& c, int slots,
                                         const GroupNodes& nodes) {
    return {{"do", "begin"},
            {"version", 1},
            {"experts", c.experts},
            {"ranks", c.groups.size()},
            {"slots_per_rank", slots},
            {"nodes", nodes.nodes},
            {"expert_groups", std::max(c.model.gate_groups, 1)},
            {"top_k", c.model.top_k},
            {"binary", true},
            {"layers", c.numbers},
            {"loads", std::vector<int>(static_cast<std::size_t>(c.experts), 1)}};
  }

  ExternalOptions o_;
  std::shared_ptr<PlannerProcess> process_;
  mutable double spent_ = 0;  // seconds of the program for this layer and step
};

}  // namespace

// command: what the shell runs, once; only with --allow-commands. timeout: of one answer (10 s).
// loads: total (default) or by-rank. splits: it shares choices out to replicas, too (false), and
// every dispatch waits for it. measured: the time that it takes is planning time (false).
// interval, first, window, lag, slots_per_gpu, payload (weights), migration (blocks), planning_time
// (0 us), planning (hidden): as for eplb; replicas: as for given.
PlacementMaker read_external(const YamlMap& params, PolicySources& sources) {
  ExternalOptions o;
  o.when = read_planning_options(params, weights_only());
  o.when.lag = read_lag(params);
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.by_rank = params.choice("loads", {"total", "by-rank"}, 0) == 1;
  o.splits = params.boolean("splits", false);
  o.measured = params.boolean("measured", false);
  o.rule = read_replica_rule(params);
  const std::string command = params.string("command");
  const Seconds limit = params.seconds("timeout", Seconds(10));
  if (!command.empty()) sources.commands.push_back(command);
  return [o, command, limit](const PlacementContext& context) {
    return std::make_unique<External>(context, o, slots_per_gpu(context, o.slots),
                                      std::make_shared<PlannerProcess>(command, limit));
  };
}

}  // namespace moesim
