// SPDX-License-Identifier: Apache-2.0
// Placement mechanisms: which GPUs hold which experts in a step.
#pragma once

#include <memory>

#include "sim/plan/assignment.h"

namespace moesim {

struct PlacementContext {
  int experts = 0;
  int gpus = 0;
  int ep = 0;  // expert-parallel degree: every run of `ep` ranks holds all experts
};

class Placer {
 public:
  virtual ~Placer() = default;
  /// The placement of one layer (index into the replayed layers) in one step, and who uses which
  /// replica.
  virtual Assignment place(int step, int layer) = 0;
};

}  // namespace moesim
