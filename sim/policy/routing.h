// SPDX-License-Identifier: Apache-2.0
// Routing mechanisms: what becomes of the recorded choices before they are placed and dispatched.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// What a routing mechanism changed; a policy that alters routing is reported as such.
struct RoutingChange {
  std::int64_t dropped_choices = 0;
  std::int64_t replaced_choices = 0;
};

/// What a routing mechanism may know when it is made: nothing yet.
struct RoutingContext {};

class Routing {
 public:
  virtual ~Routing() = default;
  /// The choices of one layer of a step after the mechanism; adds to `change` what it altered.
  /// The view stays valid until the next call.
  virtual IdRows apply(const TraceStep& step, int layer, RoutingChange& change) = 0;
};

}  // namespace moesim
