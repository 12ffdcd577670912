// SPDX-License-Identifier: Apache-2.0
// What sources print of whole training iterations, next to their time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/report/turn_times.h"

namespace moesim {

/// What turns of one kind take together, where somebody took an iteration apart.
struct PublishedTurns {
  TurnPart part = TurnPart::forward;
  Seconds time;
};

struct PublishedIteration {
  std::string model, release;  // release: of the software; empty if the source has one
  int gpus = 0;
  std::int64_t tokens = 0;  // of the global batch
  /// Model flop of a GPU, where the source prints them and no time: moesim's flop of the model then
  /// say the time.
  std::optional<FlopsPerSecond> rate = {};
  bool all_scores = false;  // the rate counts the scores that a causal mask leaves out, too
  std::optional<Bytes> peak_memory = {};  // of the fullest GPU
  std::optional<bool> fits = {};          // whether it ran, or ran out of memory
  std::vector<PublishedTurns> turns = {};
  std::optional<int> stage = {};  // of the pipeline whose turns these are; none: the mean one
  std::string recorded = {};      // name of its recorded routing; empty: as the scenario says
  bool whole = false;             // all microbatches are simulated, however many
  std::string note = {};
};

/// Two rows of a table: how much faster the second one is.
struct PublishedGain {
  std::string slower, faster;  // names of figures
};

}  // namespace moesim
