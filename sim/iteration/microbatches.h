// SPDX-License-Identifier: Apache-2.0
// Recorded tokens for the microbatches of every replica.
#pragma once

#include <vector>

#include "sim/iteration/iteration_spec.h"
#include "sim/trace/batches.h"

namespace moesim {

struct Microbatches {
  /// Those that differ, in their order: of the iteration's microbatch m, number m modulo their
  /// count. Ranks are the GPUs of a pipeline stage, ascending.
  std::vector<Batch> distinct;
  std::int64_t trace_tokens = 0;  // recorded
  std::int64_t tokens = 0;        // that the distinct ones hold
};

/// Every replica gets whole sequences of the trace, as make_batches deals them out, and cuts them
/// into microbatches; each of the GPUs that share a replica's sequences holds an equal run of each
/// microbatch. A trace with too few tokens for one microbatch of every replica is played again.
Microbatches make_microbatches(const RoutingTrace& trace, const IterationShape& shape,
                               const IterationSpec& spec);

}  // namespace moesim
