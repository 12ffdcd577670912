// SPDX-License-Identifier: Apache-2.0
// From rules that pick a replica for every choice to shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan/assignment.h"

namespace moesim {

/// One choice of an expert: the token's index in the batch of its source rank, and which of the
/// token's k choices it is.
struct Choice {
  std::int64_t token = 0;
  int position = 0;
};

/// Consecutive choices of one slot as one share. Throws Error when there are no choices.
Shares run_length(std::span<const SlotId> sequence);

/// The shares of one (source rank, expert): choice i of `choices` (token order) goes to
/// replicas[replica_of(i, choice)]; without choices, everything to the first replica.
template <class Rule>
Shares shares_by(std::span<const Choice> choices, std::span<const SlotId> replicas,
                 const Rule& replica_of) {
  if (choices.empty() || replicas.size() == 1) return {{replicas.front(), 1}};
  std::vector<SlotId> sequence;
  sequence.reserve(choices.size());
  std::int64_t i = 0;
  for (const Choice& choice : choices) sequence.push_back(replicas[replica_of(i++, choice)]);
  return run_length(sequence);
}

/// `count` choices dealt out in proportion to weights >= 0, by largest remainder (ties: lowest
/// index); evenly when all weights are 0. Sums to count. Throws Error without weights.
std::vector<std::int64_t> apportion(std::int64_t count, std::span<const double> weights);

}  // namespace moesim
