// SPDX-License-Identifier: Apache-2.0
// The MoE layers of one pipeline stage, as the mechanisms of a system make them of every
// microbatch.
#pragma once

#include <memory>
#include <vector>

#include "sim/iteration/microbatches.h"
#include "sim/parallel/grid.h"
#include "sim/parallel/layer_layout.h"
#include "sim/policy/layer_planner.h"

namespace moesim {

/// The layers of one chunk in one microbatch: what LayerOps works on.
struct ChunkLayers {
  std::vector<LayerWork> works;
  std::vector<ReplayedLayer> replayed;  // of these works
  std::vector<ChosenExperts> chosen;    // [work], only with explicit rows
};

class StageLayers {
 public:
  /// `chunks`: numbers of the model's MoE layers in each chunk of the stage. `cluster` is the
  /// stage's own part of the topology. All of these must outlive it.
  StageLayers(const SystemSpec& system, const Topology& cluster, const MoeModel& model,
              const RoutingTrace& trace, const Microbatches& microbatches,
              std::vector<std::vector<int>> chunks, PlannerOptions options);

  /// Decides all layers in all microbatches of an iteration that differ. Whether any got new slots,
  /// from loads.
  bool plan(int iteration, RoutingChange& change);

  ChunkLayers& of(int microbatch, int chunk) {
    auto& chunks = planned_[static_cast<std::size_t>(microbatch) % planned_.size()];
    return *chunks[static_cast<std::size_t>(chunk)];
  }
  /// Of the microbatch that was decided last.
  ChunkLayers& last(int chunk) { return of(static_cast<int>(planned_.size()) - 1, chunk); }
  /// Of it a layer; null where the stage has no MoE layer of that number.
  const LayerWork* last_of(int number);
  int chunks() const { return static_cast<int>(chunks_.size()); }
  const LayerPlanner& planner() const { return planner_; }
  const std::vector<int>& numbers(int chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)];
  }

 private:
  static PlannerOptions with_layers(const std::vector<std::vector<int>>& chunks,
                                    const MoeModel& model, const RoutingTrace& trace,
                                    PlannerOptions options);

  std::vector<std::vector<int>> chunks_;
  const Microbatches& microbatches_;
  LayerPlanner planner_;
  std::vector<std::vector<std::unique_ptr<ChunkLayers>>> planned_;  // [microbatch][chunk]
};

/// Layers of multi-token prediction at a position of the pipeline or before: what each leaves goes
/// on to the head.
int predicted_by(const LayerLayout& layers, int position);

/// The number of a layer of the model, or of multi-token prediction behind them; of other parts
/// below 0.
int layer_number(const MoeModel& model, const StagePart& part);

/// Which EP groups of a pipeline stage, in the order of Grid::stage_by, share the tensors of their
/// experts; none where etp is 1.
TensorSharers tensor_sharers(const Grid& grid, int stage);

/// The recorded layer that stands for a MoE layer of the model: that of its number, else the
/// recorded ones in turn. An index into TraceInfo::layers.
int recorded_layer(const TraceInfo& trace, const MoeModel& model, int number);

}  // namespace moesim
