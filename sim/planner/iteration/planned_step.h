// SPDX-License-Identifier: Apache-2.0
// A planned step: its plan, and what the mechanisms made of every MoE layer in it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/planner/iteration/step_memory.h"
#include "sim/planner/layer/layer_planner.h"
#include "sim/planner/pipeline/shortened.h"

namespace moesim {

/// One MoE layer in one microbatch. GPUs have the numbers of their pipeline stage.
struct PlannedLayer : LayerWork {
  explicit PlannedLayer(LayerWork work) : LayerWork(std::move(work)) {}

  ChosenExperts chosen = {};     // only with explicit rows
  const Batch* batch = nullptr;  // its tokens, by the ranks of the stage
  int stage = 0;
  int microbatch = 0;     // of the different ones
  int chunk = 0;          // of the stage
  std::size_t index = 0;  // among the layers of the stage
};

/// A training iteration, or a step of MoE layers, which is an iteration of one stage and one
/// microbatch without an update.
struct PlannedStep {
  Plan plan;
  std::vector<PlannedLayer> layers;  // stage by stage, microbatch by microbatch
  RoutingChange change;
  std::int64_t tokens = 0;                       // of all replicas
  StepMemory memory;                             // of the whole pipeline
  const ShortenedPipeline* shortened = nullptr;  // that the plan is of, if not of the whole

  Seconds planning() const;  // of the host, over all layers
  bool replanned() const;    // slots of any layer, from loads
};

}  // namespace moesim
