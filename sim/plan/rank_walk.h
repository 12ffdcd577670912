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
  /// Whether every share takes one choice at a time, as in round robin.
  bool singly() const { return singly_; }
  template <bool singly = false>
  SlotId next(ExpertId expert) {
    if constexpr (singly) {
      const Single now = singles_now_[expert.index()];
      singles_now_[expert.index()] = singles_[now.after];
      return now.slot;
    }
    Place& place = places_[expert.index()];
    const Turn& turn = turns_[place.turn];
    const std::uint32_t left = place.left - 1;
    place = left > 0 ? Place{place.turn, left} : Place{turn.after, turn.taken_after};
    return turn.slot;
  }

 private:
  /// A share in the cycle of its expert's: a link to the next one costs no branch that is as often
  /// taken as not.
  struct Turn {
    SlotId slot;
    std::uint32_t count;
    std::uint32_t after;  // the next turn, and its count
    std::uint32_t taken_after;
  };
  struct Place {
    std::uint32_t turn;
    std::uint32_t left;  // choices that its slot still takes
  };
  /// A turn of one choice.
  struct Single {
    SlotId slot;
    std::uint32_t after;
  };
  bool singly_ = true;
  std::vector<Turn> turns_;
  std::vector<Place> places_;        // [expert]
  std::vector<Single> singles_;      // [turn] if all are
  std::vector<Single> singles_now_;  // [expert]
};

}  // namespace moesim
