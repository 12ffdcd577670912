// SPDX-License-Identifier: Apache-2.0
// What an iteration of a pipeline consists of, by kinds of turns.
#pragma once

#include <array>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// In the words of DeepSeek-V3's table (arXiv:2505.09343). The parts add up to the iteration.
enum class TurnPart {
  forward,   // 1F: a forward by itself
  backward,  // 1B: a backward by itself, with its weight gradients or without
  weights,   // 1W: weight gradients by themselves
  merged,    // 1F1B: a forward with a backward of another microbatch
  update,    // outside all turns: the update, and what replicas exchange
  bubble,    // nothing of these
};
inline constexpr int turn_part_count = static_cast<int>(TurnPart::bubble) + 1;
inline constexpr std::array<const char*, turn_part_count> turn_part_names = {
    "1F", "1B", "1W", "1F1B", "update", "bubble"};

struct TurnTimes {
  std::array<Seconds, turn_part_count> parts{};

  Seconds& of(TurnPart part) { return parts[static_cast<std::size_t>(part)]; }
  Seconds of(TurnPart part) const { return parts[static_cast<std::size_t>(part)]; }
  bool operator==(const TurnTimes&) const = default;
};

/// Times of the mean GPU, from those of every stage's: stages have equally many GPUs.
inline TurnTimes mean_of(const std::vector<TurnTimes>& stages) {
  TurnTimes mean;
  for (const TurnTimes& stage : stages) {
    for (std::size_t p = 0; p < mean.parts.size(); ++p) {
      mean.parts[p] += stage.parts[p] * (1 / static_cast<double>(stages.size()));
    }
  }
  return mean;
}

}  // namespace moesim
