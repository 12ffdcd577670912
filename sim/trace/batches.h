// SPDX-License-Identifier: Apache-2.0
// Spreads a recorded trace over the ranks of a cluster, in steps of equal token counts; `repeat`
// says how many.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Consecutive tokens of one recorded step.
struct TokenRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const TokenRun&) const = default;
};

/// Adds a run, to the last one if it continues that.
void append(std::vector<TokenRun>& runs, TokenRun run);

/// The tokens of runs.
std::int64_t tokens_of(std::span<const TokenRun> runs);

/// The i-th of `parts` equal parts of some tokens; the first parts get the odd ones.
std::vector<TokenRun> part_of(const std::vector<TokenRun>& runs, int i, int parts);

/// The tokens of one simulated step.
struct Batch {
  int step = 0;                              // index of the recorded step
  std::vector<std::vector<TokenRun>> ranks;  // [source rank] -> the ranges it holds, in order
  std::int64_t tokens() const;
};

struct BatchOptions {
  int ranks = 1;
  std::optional<std::int64_t> tokens_per_rank = {};  // default: the largest number every rank has
  int repeat = 1;  // how often the sequences of every recorded step are played
};

struct Batches {
  std::vector<Batch> batches;
  std::int64_t tokens_per_rank = 0;
  std::int64_t unused_tokens = 0;  // recorded tokens (repeats included) that fill no batch
};

/// Whole sequences go to the rank with the fewest tokens so far (lowest rank on ties), each
/// recorded step by itself, because a sequence stays on one rank in training and serving.
/// Every rank's tokens are then cut into batches of `tokens_per_rank`. Throws Error naming `repeat`
/// when a rank has fewer tokens than one batch.
Batches make_batches(const RoutingTrace& trace, const BatchOptions& options);

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
