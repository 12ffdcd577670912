// SPDX-License-Identifier: Apache-2.0
// Hecate: every expert is sharded to one GPU, loaded ones are replicated for one step while the
// dense part of the layer computes, and now and then the shards are dealt out anew. FSSDP,
// arXiv 2502.02581; no public code.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/replica_use.h"
#include "sim/mechanism/placement/training/expert_copies.h"
#include "sim/mechanism/placement/training/hecate.h"
#include "sim/mechanism/placement/training/planner_rates.h"

namespace moesim {
namespace {

struct HecateSetting {
  int window = 5;
  int interval = 100;
  int free_slots = 4;
  int calibration_slots = 0;
  bool release = false;
  Broadcast how = Broadcast::direct;
  std::optional<Seconds> dense;
  PlannerRates rates;
};

class Hecate final : public Copier {
 public:
  Hecate(const PlacementContext& context, const HecateSetting& setting)
      : Copier(context, {setting.how, setting.release}, when(setting)),
        setting_(setting),
        node_size_(group_nodes(context).gpus_per_node),
        throughput_(throughput_of(setting.rates, context)),
        bandwidth_(bandwidth_of(setting.rates, context, CountedBytes::other_nodes)),
        dealt_(cells()) {
    if (!setting.dense && dense_time(context.model, throughput_, 1).value == 0) {
      throw Unsuitable(
          fmt::format("'{}' hides transfers behind attention, which the model does not describe",
                      context.who),
          "give the placement its 'dense_time', or another model");
    }
  }

  bool reacts() const override { return setting_.calibration_slots > 0; }
  std::vector<FirstPlan> first_plans() const override {
    return {{"planned", reacts() ? 0 : 1}, {"dealt out its shards", setting_.interval}};
  }

 private:
  static PlanningOptions when(const HecateSetting& setting) {
    PlanningOptions options;
    options.interval = options.first = setting.interval;
    options.window = setting.window;
    return options;
  }

  HecateLimits limits_of(const Batch& batch) const {
    HecateLimits limits;
    limits.dense = setting_.dense ? *setting_.dense
                                  : dense_time(context().model, throughput_, mean_tokens(batch));
    limits.bandwidth = bandwidth_;
    limits.parameters = weight_bytes(context());
    limits.gradients = gradient_bytes(context());
    limits.free_slots.assign(static_cast<std::size_t>(ep()), setting_.free_slots);
    limits.gpus_per_node = node_size_;
    return limits;
  }

  /// New owners for all layers at once, at the first, from the steps seen so far.
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    if (at.layer == 0) {
      std::vector<std::vector<std::int64_t>> loads;
      for (int layer = 0; layer < context().layers; ++layer) {
        loads.push_back(loads_seen(cell(layer, at.group)));
      }
      auto shards = hecate_shards(loads, hidden_experts(limits_of(at.batch), context().experts),
                                  ep(), node_size_);
      for (int layer = 0; layer < context().layers; ++layer) {
        dealt_[cell(layer, at.group)] = std::move(shards[static_cast<std::size_t>(layer)]);
      }
    }
    return dealt_[at.cell];
  }

  /// No replicas in the first step, before which nothing is known; after the gate more of them by
  /// the step's own loads, if that pays.
  StepSlots in_step(const GroupStep& at) override {
    HecateLimits limits = limits_of(at.batch);
    StepSlots step{at.slots};
    if (!seen(at.cell).empty()) {
      Replication r = hecate_replicate(at.slots, loads_seen(at.cell), limits);
      step = {std::move(r.table), std::move(r.gather), std::move(r.reduce), true};
    }
    if (setting_.calibration_slots == 0) return step;
    limits.free_slots.assign(static_cast<std::size_t>(ep()), setting_.calibration_slots);
    const HecateCosts costs{context().model.row_bytes(), bandwidth_,
                            choice_time(context().model, throughput_)};
    auto more = hecate_calibrate(at.slots, step.table, at.loads, limits, costs);
    if (!more) return step;
    step.table = std::move(more->table);
    step.gather.insert(step.gather.end(), more->gather.begin(), more->gather.end());
    step.reduce.insert(step.reduce.end(), more->reduce.begin(), more->reduce.end());
    step.planned = step.after_gate = true;
    return step;
  }

  Assignment assign(const GroupStep& at, Placement slots) override {
    return assign_replicas(slots, at.ranks, at.first_gpu, ReplicaUse::node_first);
  }

  void move(LayerDecision& decision, const SlotTable& before,
            const SlotTable& after) const override {
    const Bytes state = weight_bytes(context()) +
                        Bytes(context().model.expert_parameters() * context().state.optimizer);
    std::vector<ExpertTransfer> moves;
    for (int g = 0; g < groups().count(); ++g) {
      const auto of_group =
          reshard_transfers(groups().part(before, g), groups().part(after, g), state);
      std::ranges::copy(groups().lifted(of_group, g), std::back_inserter(moves));
    }
    decision.migrate = broadcast("migrate", moves, groups(), Broadcast::direct);
  }

  HecateSetting setting_;
  int node_size_;
  FlopsPerSecond throughput_;
  BytesPerSecond bandwidth_;
  std::vector<SlotTable> dealt_;  // [cell] by the newest deal
};

}  // namespace

// window (5): newest steps whose loads are summed; interval (100): steps between deals of the
// shards; free_slots (4): of a GPU and layer for replicas; calibration_slots (0): of a GPU and
// layer for replicas chosen after the gate, by its loads, if that pays (all replicas of such a
// layer then wait for its gate); release (false): replicas are dropped after the forward and
// gathered again for the backward; broadcast (direct): of parameters and, reversed, gradients:
// direct, by-node or chain; dense_time (default: attention projections and shared experts): what
// hides transfers; bandwidth of a GPU to other nodes (default: its share of a uniform all-to-all)
// and throughput (default: that of its GEMMs) in the performance model.
PlacementMaker read_hecate(const YamlMap& params) {
  constexpr Range count{1, 1 << 20}, slots{0, 1 << 16};
  HecateSetting s;
  s.window = static_cast<int>(params.integer("window", count, s.window));
  s.interval = static_cast<int>(params.integer("interval", count, s.interval));
  s.free_slots = static_cast<int>(params.integer("free_slots", slots, s.free_slots));
  s.calibration_slots =
      static_cast<int>(params.integer("calibration_slots", slots, s.calibration_slots));
  s.release = params.boolean("release", s.release);
  s.how = static_cast<Broadcast>(params.choice("broadcast", broadcast_names, 0));
  if (const auto dense = params.find("dense_time")) s.dense = dense->seconds();
  s.rates = read_planner_rates(params);
  return [s](const PlacementContext& context) { return std::make_unique<Hecate>(context, s); };
}

}  // namespace moesim
