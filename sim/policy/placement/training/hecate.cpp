// SPDX-License-Identifier: Apache-2.0
// Hecate: every expert is sharded to one GPU, loaded ones are replicated for one step while the
// dense part of the layer computes, and now and then the shards are dealt out anew. FSSDP,
// arXiv 2502.02581; no public code.
#include "sim/balance/training/hecate.h"

#include <deque>

#include "sim/policy/placement/lagged.h"
#include "sim/policy/placement/replica_use.h"
#include "sim/policy/placement/training/expert_copies.h"
#include "sim/policy/placement/training/planner_rates.h"
#include "sim/policy/policies.h"
#include "sim/policy/unsuitable.h"

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

class Hecate final : public Placer {
 public:
  Hecate(const PlacementContext& context, const HecateSetting& setting)
      : context_(context),
        setting_(setting),
        node_size_(node_size(context, "hecate")),
        host_size_(gpus_per_host(context.topology, "hecate")),
        throughput_(throughput_of(setting.rates, context)),
        bandwidth_(bandwidth_of(setting.rates, context, CountedBytes::other_nodes)) {
    if (!setting.dense && dense_time(context.model, throughput_, 1).value == 0) {
      throw Unsuitable("'hecate' hides transfers behind attention, of which the model says nothing",
                       "give the placement its 'dense_time', or another model");
    }
    const auto shards = contiguous_placement(context.experts, context.gpus, context.ep).table();
    layers_.assign(static_cast<std::size_t>(context.layers), {shards, {}, {}});
  }

  LayerDecision decide(const LayerRoutingNow& now) override {
    const HecateLimits limits = limits_of(now.batch);
    if (now.layer == 0 && steps_++ > 0 && (steps_ - 1) % setting_.interval == 0) reshard(limits);
    Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
    bool calibrated = false;
    std::vector<StepCopies> runs;
    for (int first = 0; first < context_.gpus; first += context_.ep) {
      StepCopies run = replicate(layer, first, limits);
      if (setting_.calibration_slots > 0) calibrated |= calibrate(layer, first, now, limits, run);
      runs.push_back(std::move(run));
    }
    Assignment assignment = assign_replicas(Placement(context_.experts, joined(runs)), context_.ep,
                                            host_size_, ReplicaUse::node_first);
    LayerDecision decision = with_copies(context_, layer.shards, runs,
                                         {setting_.how, setting_.release}, std::move(assignment));
    decision.after_gate = calibrated;
    decision.planned = calibrated || !layer.window.empty();
    decision.migrate = std::move(layer.migrate);
    layer.migrate.clear();
    layer.window.push_back(now.loads);
    if (layer.window.size() > static_cast<std::size_t>(setting_.window)) layer.window.pop_front();
    return decision;
  }

  bool reacts() const override { return setting_.calibration_slots > 0; }
  std::vector<FirstPlan> first_plans() const override {
    return {{"planned", reacts() ? 0 : 1}, {"dealt out its shards", setting_.interval}};
  }

 private:
  struct Layer {
    SlotTable shards;
    std::deque<LoadMatrix> window;
    std::vector<ParamExchange> migrate;  // of the step to come
  };

  HecateLimits limits_of(const Batch& batch) const {
    HecateLimits limits;
    limits.dense = setting_.dense ? *setting_.dense
                                  : dense_time(context_.model, throughput_, mean_tokens(batch));
    limits.bandwidth = bandwidth_;
    limits.parameters = weight_bytes(context_);
    limits.gradients = gradient_bytes(context_);
    limits.free_slots.assign(static_cast<std::size_t>(context_.ep), setting_.free_slots);
    limits.gpus_per_node = node_size_;
    return limits;
  }

  /// Choices per expert of a run over the window.
  std::vector<std::int64_t> loads(const Layer& layer, int first) const {
    std::vector<std::int64_t> sum(static_cast<std::size_t>(context_.experts));
    for (const LoadMatrix& step : layer.window) {
      const auto of_step = rows_of(step, first, context_.ep).per_expert();
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += of_step[e];
    }
    return sum;
  }

  /// No replicas in the first step, before which nothing is known.
  StepCopies replicate(const Layer& layer, int first, const HecateLimits& limits) const {
    SlotTable shards = run_of(layer.shards, first, context_.ep);
    if (layer.window.empty()) return {std::move(shards), {}, {}};
    Replication r = hecate_replicate(shards, loads(layer, first), limits);
    return {std::move(r.table), std::move(r.gather), std::move(r.reduce)};
  }

  /// Adds replicas by the step's own loads where that pays; says whether it does.
  bool calibrate(const Layer& layer, int first, const LayerRoutingNow& now, HecateLimits limits,
                 StepCopies& run) const {
    limits.free_slots.assign(static_cast<std::size_t>(context_.ep), setting_.calibration_slots);
    const HecateCosts costs{context_.model.row_bytes(), bandwidth_,
                            choice_time(context_.model, throughput_)};
    auto more = hecate_calibrate(run_of(layer.shards, first, context_.ep), run.table,
                                 rows_of(now.loads, first, context_.ep), limits, costs);
    if (!more) return false;
    run.table = std::move(more->table);
    run.gather.insert(run.gather.end(), more->gather.begin(), more->gather.end());
    run.reduce.insert(run.reduce.end(), more->reduce.begin(), more->reduce.end());
    return true;
  }

  /// New owners for all layers at once, from the steps seen so far.
  void reshard(const HecateLimits& limits) {
    const Bytes state(context_.model.expert_parameters() *
                      (size_of(context_.model.weights) + context_.state.optimizer));
    std::vector<SlotTable> after(layers_.size());
    std::vector<std::vector<ExpertTransfer>> moves(layers_.size());
    for (int first = 0; first < context_.gpus; first += context_.ep) {
      std::vector<std::vector<std::int64_t>> all;
      for (const Layer& layer : layers_) all.push_back(loads(layer, first));
      const auto tables =
          hecate_shards(all, hidden_experts(limits, context_.experts), context_.ep, node_size_);
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        const auto transfers =
            reshard_transfers(run_of(layers_[l].shards, first, context_.ep), tables[l], state);
        std::ranges::copy(from_rank(transfers, first), std::back_inserter(moves[l]));
        std::ranges::copy(tables[l], std::back_inserter(after[l]));
      }
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      layers_[l].shards = std::move(after[l]);
      layers_[l].migrate = broadcast("migrate", moves[l], context_.topology, Broadcast::direct);
    }
  }

  PlacementContext context_;
  HecateSetting setting_;
  int node_size_;
  int host_size_;
  FlopsPerSecond throughput_;
  BytesPerSecond bandwidth_;
  std::vector<Layer> layers_;
  int steps_ = 0;
};

}  // namespace

// window (5): newest steps whose loads are summed; interval (100): steps between deals of the
// shards; free_slots (4): of a GPU and layer for replicas; calibration_slots (0): of a GPU and
// layer for replicas chosen after the gate, by its loads, where that pays (all replicas of such a
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
