// SPDX-License-Identifier: Apache-2.0
// The slots that serve the choices of one rank, if an assignment is split.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/assignment.h"

namespace moesim {

/// Walks the choices of one source rank of a split assignment in token order: AssignmentWalk, made
/// for many choices of a rank at a time.
class RankWalk {
 public:
  RankWalk(const Assignment& assignment, GpuId source);
  SlotId next(ExpertId expert) {
    Place& place = places_[expert.index()];
    if (place.left == 0) {
      const Turn& turn = turns_[place.after];
      place = {turn.count, turn.slot, turn.after};
    }
    --place.left;
    return place.slot;
  }

 private:
  /// A share in the cycle of its expert's: a link to the next one costs no branch that is as often
  /// taken as not.
  struct Turn {
    SlotId slot;
    std::uint32_t after;
    std::int64_t count;
  };
  /// All that most choices need.
  struct Place {
    std::int64_t left;  // choices that the slot still takes
    SlotId slot;
    std::uint32_t after;  // the next turn
  };
  std::vector<Turn> turns_;
  std::vector<Place> places_;  // [expert]
};

}  // namespace moesim
