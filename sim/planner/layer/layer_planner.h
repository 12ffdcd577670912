// SPDX-License-Identifier: Apache-2.0
// From one batch of a trace to what the mechanisms of a system make of its layers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/mechanism/counted_groups.h"
#include "sim/mechanism/placer.h"
#include "sim/mechanism/routing.h"
#include "sim/plan/loss.h"
#include "sim/planner/layer/chunk_count.h"
#include "sim/planner/layer/gradient_sum.h"
#include "sim/planner/layer/padded_rows.h"
#include "sim/planner/layer/replayed_layer.h"
#include "sim/planner/layer/shared_choice.h"
#include "sim/planner/schedule/schedule.h"
#include "sim/planner/system.h"
#include "sim/topology/topology.h"

namespace moesim {

class LayerPlanner;

struct PlannerOptions {
  int ep = 0;               // expert-parallel degree
  std::vector<int> layers;  // indices into TraceInfo::layers of the replayed layers
  bool backward = true;
  bool explicit_rows = false;  // token lists for real execution and check_delivery
  bool attention = true;       // the model's attention as compute of every layer, if it is known
  TrainingState state = {};
  int accumulate = 1;  // steps that share a sum of expert gradients over the EP groups; 0: none
  std::span<const Batch> batches = {};  // of all steps; only oracles look at them
  int first_step = 0;                   // the number of the first of these
  int steps = 0;                        // of iterations, which have no such batches: so many
  /// Their microbatches that pass a model layer of some number.
  std::function<std::vector<const Batch*>(int iteration, int number)> microbatches = {};
  std::span<const Batch> warmup = {};  // of the steps just before, which planners see first
  std::vector<int> numbers = {};  // model layers that they stand for; empty: those of the trace
  std::optional<DataType> gemm_type = {};  // that experts compute in; default: the weights'
  bool overlap_results = false;  // their last products run while results of other experts travel
  int attending = 0;  // GPUs of the only EP group that hold tokens and no experts; 0: all hold both
  TensorSharers tensor_sharers = {};  // of EP groups; the model has their parts of the experts
  CountedLayers* counted = nullptr;   // by planners for other parts of the cluster, and by this one
  bool settled = false;               // LayerDecision::settle
  bool warmed = false;  // PlacementContext::warmed, next to a warm-up of these options
  bool told = false;    // the placement plans when it is told (Placer::may_be_told), by show()
  /// It was told by that planner, for the same cluster, and is asked between two plans. Outlives
  /// this one.
  LayerPlanner* told_by = nullptr;
  LayerPlanner* moved_from = nullptr;  // experts move in this step from where that one has them
  bool join_alike = false;  // communicators with equal times are one exchange (are_alike)

  /// Model layers that the replayed ones stand for.
  std::vector<int> numbers_in(const TraceInfo& trace) const {
    if (!numbers.empty()) return numbers;
    std::vector<int> recorded;
    for (const int index : layers) {
      recorded.push_back(trace.layers[static_cast<std::size_t>(index)]);
    }
    return recorded;
  }
};

/// What the tokens of one layer chose after the routing mechanism: [token][k], below 0: dropped.
using ChosenExperts = std::vector<std::vector<ExpertId>>;

/// Decides layer by layer with the mechanisms of one system; stateful mechanisms see the batches of
/// the warm-up first, then those of the calls in their order. Topology, model and trace must
/// outlive it. What a mechanism refuses is Unsuitable: only this case cannot be.
class LayerPlanner {
 public:
  LayerPlanner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
               const RoutingTrace& trace, PlannerOptions options);
  // Mechanisms keep a reference to what it holds.
  LayerPlanner(const LayerPlanner&) = delete;

  const PlannerOptions& options() const { return options_; }
  const MoeModel& model() const { return model_; }
  const Schedule& schedule() const { return *schedule_; }
  int layers() const { return static_cast<int>(options_.layers.size()); }

  /// A layer (an index into the options' layers) of a batch, without rows. Adds to `change`.
  LayerWork work(const Batch& batch, int step, std::size_t layer, RoutingChange& change,
                 bool begins_iteration = true);
  /// Shows a step to a placement that plans when it is told, and tells it.
  void show(const Batch& batch, int step);
  /// Adds explicit rows to the work of a layer that was planned from this batch, and to `change`
  /// what its routing altered; returns what its tokens chose.
  ChosenExperts add_rows(LayerWork& work, const Batch& batch, std::size_t layer,
                         RoutingChange& change);

  /// The sum of a layer's gradients over the EP groups, for who does not want one in every step.
  std::optional<ParamExchange> gradient_sum(const LayerDecision& decision) const {
    return moesim::gradient_sum(placing_, decision);
  }
  /// What the replicas of a layer's experts pass round.
  std::optional<ParamExchange> expert_ring(const std::vector<const LayerDecision*>& copies,
                                           const ExpertRing& ring) const {
    return moesim::expert_ring(placing_, copies, ring, options_.tensor_sharers);
  }

  /// What it computes less exactly than is stated, if its routing changed so much.
  Loss loss(const RoutingChange& change) const;
  /// Why its kernels cannot run on this cluster; empty: they can.
  const std::string& cannot_run() const { return dispatch_->cannot_run(); }
  /// By how much it has padded the rows of all layers so far: sentences whose subject is the
  /// policy.
  std::vector<std::string> notes() const { return padded_.notes(); }
  std::vector<std::string> placement_notes() const { return placer_->notes(); }

  /// When the placement first decides from loads, steps of the warm-up included.
  std::vector<FirstPlan> first_plans() const { return placer_->first_plans(); }
  bool reacts() const { return placer_->reacts(); }
  bool may_be_told() const { return placer_->may_be_told(); }
  /// Whether the placement looks at routing: else it is shown no warm-up.
  bool looks() const { return placer_->looks(); }
  /// Why its plans are the same for any loads, or nothing (Placer::forced).
  std::string forced() const { return placer_->forced(); }
  /// Steps of the warm-up in which it did.
  int replans_in_warmup() const { return replans_in_warmup_; }

 private:
  std::vector<LoadMatrix> recorded_loads(int step, int layer) const;
  LoadMatrix loads_of(const Batch& batch, IdRows ids) const;
  void warm_up();
  /// Slots, and the tokens that go to them.
  struct Decided {
    LayerDecision decision;
    RoutedTokens tokens;
  };
  RoutedTokens recorded(const Batch& batch, std::size_t layer) const {
    return {batch, trace_.step(batch.step).ids(options_.layers[layer])};
  }
  RoutedTokens routed(const Batch& batch, std::size_t layer, const Assignment* placed,
                      RoutingChange& change);
  /// With the choice of the shared expert, if the placement routes it.
  RoutedTokens complete(const RoutedTokens& tokens) {
    return shared_choice_ ? shared_choice_->add_to(tokens) : tokens;
  }
  /// With the number of choices that the gate makes, and of the shared expert.
  LayerTokens tokens_of(const RoutedTokens& routed, const Assignment& placed) const;
  Decided decide(const Batch& batch, int step, std::size_t layer, RoutingChange& change,
                 bool begins_iteration, Moment moment);
  std::vector<LayerWork> chunks(const LayerWork& work, const LayerTokens& tokens) const;
  /// That of the schedule, with a count.
  Chunking chunking(const LayerWork& work) const;
  RowCounts count(const Dispatch& dispatch, const LayerTokens& tokens, IdRows recorded) const;
  bool sums_gradients(int step) const {
    return options_.backward && options_.accumulate > 0 && (step + 1) % options_.accumulate == 0;
  }

  const MoeModel& model_;
  const RoutingTrace& trace_;
  PlannerOptions options_;
  PlacementContext placing_;
  std::shared_ptr<const std::vector<Group>> tensor_groups_;  // null: experts are whole
  MemberNodes tensor_nodes_;                                 // of the first of them
  PaddedRows padded_;
  int replans_in_warmup_ = 0;
  std::unique_ptr<Routing> routing_;
  std::shared_ptr<Placer> placer_;
  std::unique_ptr<Dispatch> dispatch_;
  std::unique_ptr<Schedule> schedule_;
  std::optional<SharedChoice> shared_choice_;  // if the placement routes the shared expert
  std::optional<ChunkCount> chunk_count_;      // if the schedule leaves it open
  int kernel_sms_ = 0;                         // multiprocessors of a GPU, if chunks are tiles
  bool fills_tiles_ = false;                   // products do, though chunks are none
};

}  // namespace moesim
