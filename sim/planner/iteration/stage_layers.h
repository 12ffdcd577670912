// SPDX-License-Identifier: Apache-2.0
// The MoE layers of one pipeline stage, as the mechanisms of a system make them of every
// microbatch.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "sim/planner/iteration/microbatches.h"
#include "sim/planner/iteration/planned_step.h"
#include "sim/planner/layer/layer_planner.h"
#include "sim/planner/parallel/grid.h"
#include "sim/planner/parallel/layer_layout.h"

namespace moesim {

/// The layers of one chunk in one microbatch: what LayerOps works on.
struct ChunkLayers {
  std::span<PlannedLayer> works;
  std::vector<ReplayedLayer> replayed;  // of these works

  /// Which of them is the layer of this number; below 0: none.
  int index_of(int number) const;
};

/// Tokens that planners see as those of a step of this number, and the layers that they pass:
/// `first` to before `last`.
struct NumberedBatch {
  const Batch* batch;
  int step;
  int first = 0, last = std::numeric_limits<int>::max();
};

class StageLayers {
 public:
  /// `chunks`: numbers of the model's MoE layers in each chunk of the stage; those of the options
  /// are all of them in turn. `cluster` is the stage's own part of the topology. All of these must
  /// outlive it.
  StageLayers(const SystemSpec& system, const Topology& cluster, const MoeModel& model,
              const RoutingTrace& trace, int stage, std::vector<std::vector<int>> chunks,
              const PlannerOptions& options);

  /// Decides all layers in the microbatches that differ, and appends them to `layers`, which has
  /// room for them and lives as long as they are used.
  void plan(std::span<const NumberedBatch> microbatches, std::vector<PlannedLayer>& layers,
            RoutingChange& change);

  ChunkLayers& of(int microbatch, int chunk) {
    return *of_chunk(chunk)[static_cast<std::size_t>(microbatch) % of_chunk(chunk).size()];
  }
  /// [microbatch that differs]
  const std::vector<std::unique_ptr<ChunkLayers>>& of_chunk(int chunk) const {
    return planned_[static_cast<std::size_t>(chunk)];
  }
  /// Layers of the microbatch that was decided last.
  const ChunkLayers& last(int chunk) const { return *of_chunk(chunk).back(); }
  /// Returns a layer of that microbatch; null if the stage has no MoE layer of that number.
  const LayerWork* last_of(int number) const;
  int chunks() const { return static_cast<int>(chunks_.size()); }
  /// Over all chunks.
  std::size_t layers() const { return planner_.options().layers.size(); }
  const LayerPlanner& planner() const { return planner_; }
  LayerPlanner& planner() { return planner_; }

 private:
  void share_traffic();

  int stage_;
  const Topology& cluster_;
  std::vector<std::vector<int>> chunks_;
  LayerPlanner planner_;
  std::vector<std::vector<std::unique_ptr<ChunkLayers>>> planned_;  // [chunk][microbatch]
};

/// Layers of multi-token prediction at a position of the pipeline or before: what each leaves
/// continues to the head.
int predicted_by(const LayerLayout& layers, int position);

/// The number of a layer of the model, or of multi-token prediction behind them; of other parts
/// below 0.
int layer_number(const MoeModel& model, const StagePart& part);

/// Which EP groups of a pipeline stage, in the order of Grid::stage_by, share the tensors of their
/// experts; none if etp is 1.
TensorSharers tensor_sharers(const Grid& grid, int stage);

/// The recorded layer that stands for a MoE layer of the model: that of its number, else the
/// recorded ones in turn. An index into TraceInfo::layers.
int recorded_layer(const TraceInfo& trace, const MoeModel& model, int number);

}  // namespace moesim
