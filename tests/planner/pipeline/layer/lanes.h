// SPDX-License-Identifier: Apache-2.0
// Lanes that run their pieces in launch order, each when what it needs is there.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "sim/planner/pipeline/layer/combined_layers.h"

namespace moesim::test {

/// When each piece ends; `lane` and `cost` are asked of a piece.
template <class Piece, class Lane, class Cost>
std::vector<double> ends(const std::vector<Piece>& pieces, const Lane& lane, const Cost& cost) {
  std::vector<double> end;
  std::array<double, 3> free = {0, 0, 0};
  for (const Piece& piece : pieces) {
    double& lane_free = free[static_cast<std::size_t>(lane(piece))];
    for (const int need : piece.after) {
      lane_free = std::max(lane_free, end.at(static_cast<std::size_t>(need)));
    }
    lane_free += cost(piece);
    end.push_back(lane_free);
  }
  return end;
}

template <class Piece, class Lane, class Cost>
double last_end(const std::vector<Piece>& pieces, const Lane& lane, const Cost& cost) {
  const std::vector<double> end = ends(pieces, lane, cost);
  return end.empty() ? 0 : *std::max_element(end.begin(), end.end());
}

}  // namespace moesim::test
