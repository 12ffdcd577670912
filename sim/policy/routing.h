// SPDX-License-Identifier: Apache-2.0
// Routing mechanisms: what becomes of the recorded choices before they are placed and dispatched.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/model/moe_model.h"
#include "sim/policy/ep_groups.h"
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
};

class Routing {
 public:
  virtual ~Routing() = default;
  /// The choices of one layer of a step after the mechanism (of the whole recorded step; only the
  /// batch's tokens matter); adds to `change` what it altered. A dropped choice is IdRows::dropped
  /// among ids of 2 bytes. The view stays valid until the next call.
  virtual IdRows apply(const RecordedRouting& recorded, RoutingChange& change) = 0;
};

}  // namespace moesim
