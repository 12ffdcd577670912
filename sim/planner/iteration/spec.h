// SPDX-License-Identifier: Apache-2.0
// A step as its planner takes it.
#pragma once

#include "sim/mechanism/placer.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

class Planner;

/// What products of a serving pass in this type move besides: their inputs are quantized once, in
/// the kernel of the norm or the activation before them.
TrainingTraffic serving_traffic(DataType type);

/// What is planned: which blocks, passes and microbatches. A step of MoE layers has only those
/// blocks (with a coarse attention, if the model has one), one stage and one microbatch.
struct Spec {
  IterationSpec spec = {};
  TrainingState state = {};
  bool optimizer = true;     // the end of the iteration: sums of gradients, update, new weights
  int first = 0, count = 1;  // iterations that are planned one by one, for oracles and epochs
  /// Token lists, for real execution.
  bool explicit_rows = false;
  bool join_alike = false;          // communicators with equal times are one exchange
  bool fewer_microbatches = false;  // a steady pipeline is planned shorter (shortened.h)
  bool only_layers = false;         // MoE layers and nothing around them
  bool backward = true;             // after the forward pass
  bool settled = false;             // LayerDecision::settle
  bool warmed = false;              // PlannerOptions::warmed
  bool told = false;                // PlannerOptions::told
  Planner* told_by = nullptr;       // PlannerOptions::told_by: of a spec with one stage
  Planner* moved_from = nullptr;    // PlannerOptions::moved_from
  /// Whether it is a pass of a serving engine, which is only forward.
  bool serves() const { return spec.serving.has_value(); }
  /// Whether some GPUs only compute experts.
  bool experts_apart() const { return serves() && spec.serving->attention_ranks > 0; }
  /// Whether tensor groups exchange what a pass of serving leaves out: the sums of the embedding
  /// and of the loss, rows of shared experts, gradients of what is not divided; and the head's
  /// gradients behind its product.
  bool whole_tensor_groups() const { return !serves(); }

  GemmTypes gemm_types(const MoeModel& model) const {
    if (spec.serving)
      return GemmTypes::served(spec.serving->weights, model, spec.serving->quantized);
    return spec.precision.types(model);
  }
};

}  // namespace moesim
