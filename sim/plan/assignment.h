// SPDX-License-Identifier: Apache-2.0
// Says which replica of an expert serves a choice. The table (source rank, expert) -> slots is made
// once; all dispatches use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/ragged.h"
#include "sim/plan/placement.h"

namespace moesim {

/// `count` consecutive choices that one slot serves. They are of one source rank and one expert; a
/// choice is one of the top-k experts of a token.
struct Share {
  SlotId slot;
  std::int64_t count = 0;
  bool operator==(const Share&) const = default;
};

/// The shares of one (source rank, expert). In token order, its choices fill one share after the
/// other, then begin with the first share again. So you can express exact quotas, and round robin
/// if every count is 1.
using Shares = std::vector<Share>;

/// The slots that serve each (source rank, expert) of one layer. Copies share them: layers whose
/// experts are alike have one table.
class Assignment {
 public:
  /// Every rank uses a replica in its own group of `ep` consecutive ranks, or any replica if the
  /// group has none. If there are several, it uses the one on the lowest slot. Throws Error unless
  /// ep divides the number of GPUs.
  Assignment(const Placement& placement, int ep);
  /// Takes an explicit table [rank][expert] of slots. Throws Error if a slot holds another expert.
  Assignment(Placement placement, const std::vector<std::vector<SlotId>>& slot_of);
  /// Takes shares [rank][expert]. Throws Error as above, and if a rank has no share for an
  /// expert, or if a count is below 1.
  Assignment(Placement placement, const std::vector<std::vector<Shares>>& shares);
  /// The same as rows [rank x experts + expert].
  Assignment(Placement placement, Ragged<Share> shares);

  const Placement& placement() const { return table_->placement; }
  /// Whether some rank spreads the choices of an expert over several slots.
  bool split() const { return table_->split(); }
  /// The slot that serves the first choice, and all others too if the assignment is not split.
  SlotId slot(GpuId source, ExpertId expert) const {
    return table_->slot_of[table_->row_of[source.index()] + expert.index()];
  }
  GpuId gpu(GpuId source, ExpertId expert) const {
    return placement().gpu_of(slot(source, expert));
  }
  /// The GPU that serves each expert for one source rank: placement().experts() entries. Only for
  /// assignments that are not split.
  const GpuId* gpus(GpuId source) const {
    return table_->gpu_of.data() + table_->row_of[source.index()];
  }
  /// Whether it is known that two ranks use the same slots.
  bool alike(GpuId a, GpuId b) const {
    return table_->row_of[a.index()] == table_->row_of[b.index()];
  }
  /// The shares of a (source rank, expert) of a split assignment.
  std::span<const Share> shares(GpuId source, ExpertId expert) const {
    return std::as_const(table_->shares)[table_->row_of[source.index()] + expert.index()];
  }
  /// The assignment of `ranks` ranks, beginning with `first`; itself if these are all. Both ranks
  /// and slots are renumbered from 0. Throws Error if one of these ranks uses a slot of any other
  /// rank, or if an expert has no slot on them.
  Assignment part(GpuId first, int ranks) const;
  /// Joins assignments into one. The ranks and slots of each part are renumbered so that they
  /// follow those of the part before. All parts must have the same experts.
  static Assignment joined(std::span<const Assignment> parts);
  bool operator==(const Assignment& other) const {
    return table_ == other.table_ || *table_ == *other.table_;
  }

 private:
  /// Unless it is split, consecutive ranks that use the same slots have one row: those of an EP
  /// group, of which thousands of ranks would take as many times the memory.
  struct Table {
    explicit Table(Placement its_placement) : placement(std::move(its_placement)) {}
    Placement placement;
    std::vector<std::size_t> row_of;  // [rank] where its row begins in what follows
    std::vector<SlotId> slot_of;      // [row][expert], flat
    std::vector<GpuId> gpu_of;        // [row][expert], flat
    Ragged<Share> shares;             // [row][expert], flat; empty unless it is split

    bool split() const { return !shares.empty(); }
    std::span<const SlotId> row(std::size_t rank) const {
      return std::span(slot_of).subspan(row_of[rank], placement.experts());
    }
    /// Adds the next rank with a row of its own. Throws Error if a slot holds another expert.
    void add_rank(std::span<const SlotId> slots);
    /// Adds the next rank, which uses the same slots as the one before.
    void repeat_rank() { row_of.push_back(row_of.back()); }
    bool operator==(const Table&) const = default;
  };
  explicit Assignment(Table table) : table_(std::make_shared<const Table>(std::move(table))) {}
  static Table table_of(Placement placement, const std::vector<std::vector<SlotId>>& slot_of);
  static Table table_of(Placement placement, Ragged<Share> shares);
  /// Adds the shares of `ranks` ranks from `first` on; `more` is added to the slots.
  void add_shares(GpuId first, int ranks, std::int64_t more, Ragged<Share>& to) const;

  std::shared_ptr<const Table> table_;
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

/// Distributes `choices` of a source rank for an expert: adds to slots[slot] how many of them each
/// slot serves.
void add_choices(const Assignment& assignment, GpuId source, ExpertId expert, std::int64_t choices,
                 std::vector<std::int64_t>& slots);

}  // namespace moesim
