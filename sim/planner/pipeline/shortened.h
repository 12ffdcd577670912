// SPDX-License-Identifier: Apache-2.0
// A pipeline of many microbatches as one of fewer, whose turns repeat between warm-up and end.
#pragma once

#include <optional>
#include <vector>

#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

/// The repeating turns of one stage, as indices into its shorter timetable. The turns
/// [cut - turns, cut) may be run again, with later microbatches, at each cut of [first, last].
struct RepeatingTurns {
  int turns = 0;  // of a period, the same work for every `distinct` microbatches
  int first = 0, last = 0;
};

struct ShortenedPipeline {
  Pipeline pipeline;     // of fewer microbatches
  int microbatches = 0;  // of the whole
  int times = 0;         // that a period is left out
  std::vector<RepeatingTurns> stages;
};

/// Nothing if timetables do not repeat, or if so few microbatches can be left out that it does not
/// pay. A period replays all `distinct` microbatches of an iteration. That timetables with the
/// period put in again are those of the whole is checked turn by turn.
std::optional<ShortenedPipeline> shortened(const Pipeline& whole, int distinct);

}  // namespace moesim
