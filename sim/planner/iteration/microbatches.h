// SPDX-License-Identifier: Apache-2.0
// Recorded tokens for the microbatches of every replica.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/planner/iteration/iteration_spec.h"
#include "sim/trace/batches.h"

namespace moesim {

struct Microbatches {
  /// All that the trace yields, in their order. Ranks are the GPUs of a pipeline stage, EP group
  /// after EP group.
  std::vector<Batch> recorded;
  int repeat = 1;         // how often every recorded step is played, so that it fills them
  int distinct = 1;       // of an iteration, whose microbatch m replays number m modulo this
  int per_iteration = 1;  // so many recorded ones later the next iteration begins
  /// The index of one of an iteration; the trace begins again where it ends.
  std::size_t index_of(int iteration, int number) const {
    const auto at = static_cast<std::size_t>(iteration) * static_cast<std::size_t>(per_iteration) +
                    static_cast<std::size_t>(number);
    return at % recorded.size();
  }
  const Batch& of(int iteration, int number) const { return recorded[index_of(iteration, number)]; }
  /// Of a trace that is shorter than an iteration only its own are distinct.
  void join_equal() { distinct = std::min(distinct, static_cast<int>(recorded.size())); }
};

/// Every replica gets whole sequences of the trace, as make_batches deals them out, and cuts them
/// into microbatches; each of the GPUs that share a replica's sequences holds an equal run of each
/// microbatch. A trace with too few tokens for one microbatch of every replica is played again. A
/// serving pass has batches of its own (serving_batches.h).
Microbatches make_microbatches(const RoutingTrace& trace, const IterationShape& shape,
                               const IterationSpec& spec);

}  // namespace moesim
