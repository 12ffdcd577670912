// SPDX-License-Identifier: Apache-2.0
// Some of the batches of a trace: all of them are as many as `repeat` says.
#pragma once

#include "sim/trace/batches.h"

namespace moesim {

/// The batches from `first` to before `last`; -1: to the end.
struct BatchWindow {
  std::int64_t first = 0, last = -1;
};

struct SomeBatches {
  Batches batches;         // of the window; unused tokens are those of all
  std::int64_t count = 0;  // of all batches
};

/// As make_batches. Memory grows with the window and not with `repeat`.
SomeBatches make_some_batches(const RoutingTrace& trace, const BatchOptions& options,
                              const BatchWindow& window);

}  // namespace moesim
