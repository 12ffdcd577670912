// SPDX-License-Identifier: Apache-2.0
// What happens in a serving run, in order of time.
#pragma once

#include <cstdint>
#include <utility>

#include "sim/base/types.h"

namespace moesim {

enum class EventKind { arrival, intake, pass_end, kv_arrival, loss, recovered, rank_back };

struct ServingEvent {
  Seconds time{};
  std::int64_t order = 0;  // in which it was added: what is at one time comes in this order
  EventKind kind{};
  std::int64_t of = 0;      // request, instance or loss
  std::int64_t serial = 0;  // of the pass: one that was lost does not end
  bool operator>(const ServingEvent& other) const {
    return std::pair(time.value, order) > std::pair(other.time.value, other.order);
  }
};

/// A request whose keys and values are on their way from one instance to another.
struct MovingRequest {
  std::size_t from = 0, to = 0;
  bool lost = false;
};

}  // namespace moesim
