// SPDX-License-Identifier: Apache-2.0
// The recorded tokens of a serving pass.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/planner/iteration/microbatches.h"

namespace moesim {

/// The tokens that the sequences of a batch take from a recorded step, for the GPUs of a pipeline
/// stage, EP group after EP group; those of a tensor-parallel group share their tokens evenly.
/// - Sequence k of all ranks is recorded sequence k modulo their number S, or its request's.
/// - Its new tokens are those after its context, at positions modulo the recorded length. Sequences
///   of the same recorded one are k / S positions apart, so that they are different tokens.
/// - A half's numbers continue the half before.
Batch serving_batch(const RoutingTrace& trace, int step, const Grid& grid, const ServingSpec& spec,
                    const BatchPart& part = {});

/// All tokens of a recorded step, for the same GPUs: ranks that attend take its sequences in turn.
Batch whole_step(const RoutingTrace& trace, int step, const Grid& grid, const ServingSpec& spec);

/// New tokens of every sequence of a pass, by number: graph padding included, later drafts not.
std::vector<std::int32_t> new_tokens(const ServingSpec& spec, int ranks);

/// The parts of one pass for each recorded step.
Microbatches make_serving_batches(const RoutingTrace& trace, const IterationShape& shape,
                                  const ServingSpec& spec);

}  // namespace moesim
