// SPDX-License-Identifier: Apache-2.0
// Which replica serves a choice: (source rank, expert) -> slots, settled once for every dispatch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim {

/// `count` consecutive choices of one (source rank, expert) that one slot serves.
struct Share {
  SlotId slot;
  std::int64_t count = 0;
  bool operator==(const Share&) const = default;
};

/// The choices of one (source rank, expert), in token order, go to its shares in turn, and after
/// the last to the first again: exact quotas, round robin (counts of 1) and any other sequence.
using Shares = std::vector<Share>;

/// The slots that serve each (source rank, expert) of one layer.
class Assignment {
 public:
  /// Every rank uses the replica in its own group of `ep` consecutive ranks (the lowest slot of
  /// several), else the replica on the lowest slot. Throws Error unless ep divides the GPUs.
  Assignment(const Placement& placement, int ep);
  /// From an explicit table [rank][expert] of slots; throws Error when a slot holds another expert.
  Assignment(Placement placement, std::vector<std::vector<SlotId>> slot_of);
  /// From shares [rank][expert], at least one each, counts > 0; throws Error as above.
  Assignment(Placement placement, const std::vector<std::vector<Shares>>& shares);

  const Placement& placement() const { return placement_; }
  /// Whether some rank spreads the choices of an expert over several slots.
  bool split() const { return !shares_.empty(); }
  /// Where the first choice goes; all of them, unless split.
  SlotId slot(GpuId source, ExpertId expert) const {
    return slot_of_[source.index()][expert.index()];
  }
  GpuId gpu(GpuId source, ExpertId expert) const { return placement_.gpu_of(slot(source, expert)); }
  /// GPU per expert for one source rank: experts() entries. For assignments that are not split.
  const GpuId* gpus(GpuId source) const {
    return gpu_of_.data() + source.index() * static_cast<std::size_t>(placement_.experts());
  }
  /// The shares of a (source rank, expert) of a split assignment.
  std::span<const Share> shares(GpuId source, ExpertId expert) const {
    const std::size_t i =
        source.index() * static_cast<std::size_t>(placement_.experts()) + expert.index();
    return {shares_.data() + first_share_[i], first_share_[i + 1] - first_share_[i]};
  }
  /// The `ranks` ranks from `first` on, renumbered from 0, as are their slots. Throws Error if one
  /// of them uses a slot of another rank, or an expert has no slot among them.
  Assignment part(GpuId first, int ranks) const;
  /// One assignment after the other: the ranks and slots of each are renumbered to follow those of
  /// the one before. All have the same experts.
  static Assignment joined(std::span<const Assignment> parts);
  bool operator==(const Assignment&) const = default;

 private:
  Placement placement_;
  std::vector<std::vector<SlotId>> slot_of_;
  std::vector<GpuId> gpu_of_;             // [rank][expert], flat
  std::vector<std::size_t> first_share_;  // [rank][expert], flat; empty unless split
  std::vector<Share> shares_;
};

/// Walks the choices of a layer in token order and says which slot serves each.
class AssignmentWalk {
 public:
  explicit AssignmentWalk(const Assignment& assignment);
  SlotId next(GpuId source, ExpertId expert) {
    if (places_.empty()) return assignment_.slot(source, expert);
    Place& place = places_[source.index() * experts_ + expert.index()];
    const auto shares = assignment_.shares(source, expert);
    if (place.used == shares[place.share].count) {
      place = {place.share + 1 == shares.size() ? 0 : place.share + 1, 0};
    }
    ++place.used;
    return shares[place.share].slot;
  }

 private:
  struct Place {
    std::size_t share = 0;
    std::int64_t used = 0;
  };
  const Assignment& assignment_;
  std::size_t experts_;
  std::vector<Place> places_;  // [rank][expert], flat; empty unless split
};

/// Choices per slot when a source rank has `choices` for an expert: adds to slots[slot].
void add_choices(const Assignment& assignment, GpuId source, ExpertId expert, std::int64_t choices,
                 std::vector<std::int64_t>& slots);

}  // namespace moesim
