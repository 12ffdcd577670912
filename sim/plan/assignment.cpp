// SPDX-License-Identifier: Apache-2.0
// Which replica serves each (source rank, expert).
#include "sim/plan/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// The lowest slot of the expert on GPUs first..first + ep - 1, else its lowest slot.
SlotId nearest_replica(const Placement& placement, ExpertId expert, int first, int ep) {
  const std::vector<SlotId>& slots = placement.slots_of(expert);
  const auto in_group =
      std::lower_bound(slots.begin(), slots.end(), placement.first_slot(GpuId(first)));
  const bool found = in_group != slots.end() && placement.gpu_of(*in_group).value < first + ep;
  return found ? *in_group : slots.front();
}

void check_ranks(std::size_t listed, int gpus) {
  if (listed == static_cast<std::size_t>(gpus)) return;
  throw Error(fmt::format("an assignment for {} ranks on a placement over {} GPUs", listed, gpus));
}

void check_experts(std::size_t rank, std::size_t listed, int experts) {
  if (listed == static_cast<std::size_t>(experts)) return;
  throw Error(fmt::format("the assignment of rank {} lists {} slots for {} experts", rank, listed,
                          experts));
}

Ragged<Share> flat(const Placement& placement, const std::vector<std::vector<Shares>>& shares) {
  check_ranks(shares.size(), placement.gpus());
  Ragged<Share> all;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    check_experts(rank, shares[rank].size(), placement.experts());
    for (const Shares& of_expert : shares[rank]) all.add_row(of_expert);
  }
  return all;
}

void check_shares(std::size_t rank, std::size_t expert, std::span<const Share> shares,
                  const Placement& placement) {
  for (const Share& share : shares) {
    if (share.count > 0 && share.slot.value >= 0 && share.slot.value < placement.slots() &&
        placement.expert_in(share.slot).index() == expert) {
      continue;
    }
    throw Error(fmt::format("rank {} gives {} choices of expert {} to slot {}", rank, share.count,
                            expert, share.slot.value));
  }
}

std::vector<SlotId> renumbered(std::span<const SlotId> slots, std::int64_t more) {
  std::vector<SlotId> result;
  result.reserve(slots.size());
  for (const SlotId slot : slots) result.emplace_back(slot.value + more);
  return result;
}

}  // namespace

void Assignment::Table::add_rank(std::span<const SlotId> slots) {
  const std::size_t rank = row_of.size();
  row_of.push_back(slot_of.size());
  for (std::size_t expert = 0; expert < slots.size(); ++expert) {
    const SlotId slot = slots[expert];
    if (slot.value < 0 || slot.value >= placement.slots()) {
      throw Error(fmt::format("rank {} takes expert {} from slot {}, but there are slots 0-{} only",
                              rank, expert, slot.value, placement.slots() - 1));
    }
    if (placement.expert_in(slot).index() != expert) {
      throw Error(fmt::format("rank {} takes expert {} from slot {}, which holds expert {}", rank,
                              expert, slot.value, placement.expert_in(slot).value));
    }
    gpu_of.push_back(placement.gpu_of(slot));
  }
  slot_of.insert(slot_of.end(), slots.begin(), slots.end());
}

Assignment::Assignment(const Placement& placement, int ep) {
  if (ep < 1 || placement.gpus() % ep != 0) {
    throw Error(fmt::format("{} GPUs cannot form groups of ep = {}", placement.gpus(), ep),
                "ep must divide the number of GPUs");
  }
  Table table(placement);
  std::vector<SlotId> row, before;
  for (int rank = 0; rank < placement.gpus(); ++rank) {
    if (rank % ep == 0) {
      before = std::exchange(row, {});
      for (int e = 0; e < placement.experts(); ++e) {
        row.push_back(nearest_replica(placement, ExpertId(e), rank, ep));
      }
    }
    rank > 0 && (rank % ep != 0 || row == before) ? table.repeat_rank() : table.add_rank(row);
  }
  table_ = std::make_shared<const Table>(std::move(table));
}

Assignment::Assignment(Placement placement, const std::vector<std::vector<SlotId>>& slot_of)
    : Assignment(table_of(std::move(placement), slot_of)) {}

Assignment::Table Assignment::table_of(Placement placement,
                                       const std::vector<std::vector<SlotId>>& slot_of) {
  check_ranks(slot_of.size(), placement.gpus());
  Table table(std::move(placement));
  for (std::size_t rank = 0; rank < slot_of.size(); ++rank) {
    check_experts(rank, slot_of[rank].size(), table.placement.experts());
    const bool repeats = rank > 0 && slot_of[rank] == slot_of[rank - 1];
    repeats ? table.repeat_rank() : table.add_rank(slot_of[rank]);
  }
  return table;
}

Assignment::Assignment(Placement placement, const std::vector<std::vector<Shares>>& shares) {
  Ragged<Share> rows = flat(placement, shares);
  *this = Assignment(std::move(placement), std::move(rows));
}

Assignment::Assignment(Placement placement, Ragged<Share> shares)
    : Assignment(table_of(std::move(placement), std::move(shares))) {}

Assignment::Table Assignment::table_of(Placement placement, Ragged<Share> shares) {
  Table table(std::move(placement));
  const auto experts = static_cast<std::size_t>(table.placement.experts());
  bool split = false;
  for (std::size_t row = 0; row < shares.size(); ++row) split |= shares[row].size() > 1;
  std::vector<SlotId> slots(experts), before;
  for (std::size_t rank = 0; rank * experts < shares.size(); ++rank) {
    for (std::size_t e = 0; e < experts; ++e) {
      const std::span<const Share> own = shares[rank * experts + e];
      if (own.empty()) throw Error(fmt::format("rank {} has no slot for expert {}", rank, e));
      slots[e] = own.front().slot;
    }
    !split&& slots == before ? table.repeat_rank() : table.add_rank(slots);
    for (std::size_t e = 0; e < experts; ++e) {
      check_shares(rank, e, shares[rank * experts + e], table.placement);
    }
    before = slots;
  }
  check_ranks(table.row_of.size(), table.placement.gpus());
  if (split) table.shares = std::move(shares);
  return table;
}

Assignment Assignment::part(GpuId first, int ranks) const {
  if (first.value == 0 && ranks == placement().gpus()) return *this;
  const std::int64_t before = placement().first_slot(first).value;
  Table part(Placement(placement().experts(), placement().table(first, ranks)));
  for (GpuId rank = first; rank.value < first.value + ranks; ++rank.value) {
    if (rank != first && alike(rank, GpuId(rank.value - 1))) {
      part.repeat_rank();
      continue;
    }
    part.add_rank(renumbered(table_->row(rank.index()), -before));
  }
  if (split()) add_shares(first, ranks, -before, part.shares);
  return Assignment(std::move(part));
}

void Assignment::add_shares(GpuId first, int ranks, std::int64_t more, Ragged<Share>& to) const {
  Shares moved;
  for (GpuId rank = first; rank.value < first.value + ranks; ++rank.value) {
    for (int e = 0; e < placement().experts(); ++e) {
      const Share only{slot(rank, ExpertId(e)), 1};
      const auto own = split() ? shares(rank, ExpertId(e)) : std::span(&only, 1);
      moved.assign(own.begin(), own.end());
      for (Share& share : moved) share.slot = SlotId(share.slot.value + more);
      to.add_row(moved);
    }
  }
}

Assignment Assignment::joined(std::span<const Assignment> parts) {
  if (parts.size() == 1) return parts.front();
  SlotTable slots;
  for (const Assignment& part : parts) {
    for (auto& of_gpu : part.placement().table()) slots.push_back(std::move(of_gpu));
  }
  const bool split = std::ranges::any_of(parts, &Assignment::split);
  Table all(Placement(parts.front().placement().experts(), slots));
  std::int64_t before = 0;  // slots of the parts before
  for (const Assignment& part : parts) {
    const int ranks = part.placement().gpus();
    for (GpuId rank(0); rank.value < ranks; ++rank.value) {
      const bool repeats = !split && rank.value > 0 && part.alike(rank, GpuId(rank.value - 1));
      if (repeats) {
        all.repeat_rank();
      } else {
        all.add_rank(renumbered(part.table_->row(rank.index()), before));
      }
    }
    if (split) part.add_shares(GpuId(0), ranks, before, all.shares);
    before += part.placement().slots();
  }
  return Assignment(std::move(all));
}

AssignmentWalk::AssignmentWalk(const Assignment& assignment)
    : assignment_(assignment),
      experts_(static_cast<std::size_t>(assignment.placement().experts())) {
  if (assignment.split()) {
    places_.resize(static_cast<std::size_t>(assignment.placement().gpus()) * experts_);
  }
}

void add_choices(const Assignment& assignment, GpuId source, ExpertId expert, std::int64_t choices,
                 std::vector<std::int64_t>& slots) {
  if (!assignment.split()) {
    slots[assignment.slot(source, expert).index()] += choices;
    return;
  }
  const auto shares = assignment.shares(source, expert);
  std::int64_t round = 0;
  for (const Share& share : shares) round += share.count;
  for (const Share& share : shares) slots[share.slot.index()] += choices / round * share.count;
  std::int64_t rest = choices % round;
  for (const Share& share : shares) {
    const std::int64_t taken = std::min(rest, share.count);
    slots[share.slot.index()] += taken;
    rest -= taken;
  }
}

}  // namespace moesim
