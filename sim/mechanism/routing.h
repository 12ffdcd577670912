// SPDX-License-Identifier: Apache-2.0
// Routing mechanisms: what becomes of the recorded choices before they are dispatched.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/mechanism/ep_groups.h"
#include "sim/model/moe_model.h"
#include "sim/plan/assignment.h"
#include "sim/trace/batches.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// What a routing mechanism changed; a policy that alters routing is reported as such.
struct RoutingChange {
  std::int64_t choices = 0;  // that there were, altered or not
  std::int64_t dropped_choices = 0;
  std::int64_t replaced_choices = 0;
  void add(const RoutingChange& other) {
    choices += other.choices;
    dropped_choices += other.dropped_choices;
    replaced_choices += other.replaced_choices;
  }
};

/// What a routing mechanism may know when it is made; it may keep the model's reference.
struct RoutingContext {
  /// Throws Error unless `ep`, the expert-parallel degree, divides the GPUs.
  RoutingContext(const Topology& topology, const MoeModel& its_model, int its_experts, int ep)
      : groups(topology, ep), model(its_model), experts(its_experts) {}
  EpGroups groups;
  const MoeModel& model;
  int experts;
};

/// The recorded choices of one layer and who holds their tokens.
struct RecordedRouting {
  const TraceStep& step;
  int layer = 0;  // index into TraceInfo::layers
  const Batch& batch;
  /// The slots of this step and layer; null unless the mechanism comes after the placement.
  const Assignment* placed = nullptr;
};

/// The tokens of a layer and their choices, by the numbers that the batch's runs have.
struct RoutedTokens {
  const Batch& batch;
  IdRows ids;
};

class Routing {
 public:
  virtual ~Routing() = default;
  /// Whether it asks where experts are. If so, placements see the recorded choices, and it then
  /// alters what is dispatched to the slots that they decided on. If not, it is part of the gate:
  /// placements see what it leaves.
  virtual bool after_placement() const { return false; }
  /// Scores that the gate computes for a token: those of all experts (0), or so many.
  virtual int gate_outputs() const { return 0; }
  /// Choices that the gate of a token makes where so many were recorded: what formulas of
  /// capacities mean by k.
  virtual int choices(int recorded) const { return recorded; }
  /// What one layer of a step chooses after the mechanism; adds to `change` what it altered. A
  /// dropped choice is IdRows::dropped among ids of 2 bytes. Equal calls have equal results, and
  /// their views stay valid until the next call.
  virtual RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) = 0;
};

}  // namespace moesim
