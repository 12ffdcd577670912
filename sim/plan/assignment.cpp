// SPDX-License-Identifier: Apache-2.0
// Which replica serves each (source rank, expert).
#include "sim/plan/assignment.h"

#include <fmt/format.h>

#include <algorithm>

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

std::vector<std::vector<SlotId>> group_table(const Placement& placement, int ep) {
  if (ep < 1 || placement.gpus() % ep != 0) {
    throw Error(fmt::format("{} GPUs cannot form groups of ep = {}", placement.gpus(), ep),
                "ep must divide the number of GPUs");
  }
  std::vector<std::vector<SlotId>> table;
  for (int first = 0; first < placement.gpus(); first += ep) {
    std::vector<SlotId> row;
    for (int e = 0; e < placement.experts(); ++e) {
      row.push_back(nearest_replica(placement, ExpertId(e), first, ep));
    }
    table.insert(table.end(), static_cast<std::size_t>(ep), row);
  }
  return table;
}

std::vector<std::vector<SlotId>> first_slots(const std::vector<std::vector<Shares>>& shares) {
  std::vector<std::vector<SlotId>> table;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    table.emplace_back();
    for (std::size_t expert = 0; expert < shares[rank].size(); ++expert) {
      if (shares[rank][expert].empty()) {
        throw Error(fmt::format("rank {} has no slot for expert {}", rank, expert));
      }
      table.back().push_back(shares[rank][expert].front().slot);
    }
  }
  return table;
}

}  // namespace

Assignment::Assignment(const Placement& placement, int ep)
    : Assignment(placement, group_table(placement, ep)) {}

Assignment::Assignment(Placement placement, std::vector<std::vector<SlotId>> slot_of)
    : Assignment(checked(std::move(placement), std::move(slot_of))) {}

Assignment::Table Assignment::checked(Placement its_placement,
                                      std::vector<std::vector<SlotId>> slot_of) {
  Table table{std::move(its_placement), std::move(slot_of)};
  const Placement& placement = table.placement;
  const auto experts = static_cast<std::size_t>(placement.experts());
  if (table.slot_of.size() != static_cast<std::size_t>(placement.gpus())) {
    throw Error(fmt::format("an assignment for {} ranks on a placement over {} GPUs",
                            table.slot_of.size(), placement.gpus()));
  }
  table.gpu_of.reserve(table.slot_of.size() * experts);
  for (std::size_t rank = 0; rank < table.slot_of.size(); ++rank) {
    if (table.slot_of[rank].size() != experts) {
      throw Error(fmt::format("the assignment of rank {} lists {} slots for {} experts", rank,
                              table.slot_of[rank].size(), experts));
    }
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const SlotId slot = table.slot_of[rank][expert];
      if (slot.value < 0 || slot.value >= placement.slots()) {
        throw Error(
            fmt::format("rank {} takes expert {} from slot {}, but there are slots 0-{} only", rank,
                        expert, slot.value, placement.slots() - 1));
      }
      if (placement.expert_in(slot).index() != expert) {
        throw Error(fmt::format("rank {} takes expert {} from slot {}, which holds expert {}", rank,
                                expert, slot.value, placement.expert_in(slot).value));
      }
      table.gpu_of.push_back(placement.gpu_of(slot));
    }
  }
  return table;
}

Assignment::Assignment(Placement placement, const std::vector<std::vector<Shares>>& shares) {
  Table table = checked(std::move(placement), first_slots(shares));
  bool split = false;
  table.first_share.push_back(0);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    for (std::size_t expert = 0; expert < shares[rank].size(); ++expert) {
      const Shares& all = shares[rank][expert];
      split |= all.size() > 1;
      for (const Share& share : all) {
        if (share.count < 1 || share.slot.value < 0 ||
            share.slot.value >= table.placement.slots() ||
            table.placement.expert_in(share.slot).index() != expert) {
          throw Error(fmt::format("rank {} gives {} choices of expert {} to slot {}", rank,
                                  share.count, expert, share.slot.value));
        }
        table.shares.push_back(share);
      }
      table.first_share.push_back(table.shares.size());
    }
  }
  if (!split) {
    table.first_share.clear();
    table.shares.clear();
  }
  table_ = std::make_shared<const Table>(std::move(table));
}

Assignment Assignment::part(GpuId first, int ranks) const {
  if (first.value == 0 && ranks == placement().gpus()) return *this;
  const std::int64_t before = placement().first_slot(first).value;
  const auto rows = table_->slot_of.begin() + first.value;
  std::vector<std::vector<SlotId>> slot_of(rows, rows + ranks);
  for (auto& row : slot_of) {
    for (SlotId& slot : row) slot = SlotId(slot.value - before);
  }
  Table part = checked(Placement(placement().experts(), placement().table(first, ranks)),
                       std::move(slot_of));
  if (!split()) return Assignment(std::move(part));
  const auto experts = static_cast<std::size_t>(placement().experts());
  const auto starts =
      table_->first_share.begin() + static_cast<std::ptrdiff_t>(first.index() * experts);
  const std::size_t from = *starts;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(ranks) * experts; ++i) {
    part.first_share.push_back(starts[static_cast<std::ptrdiff_t>(i)] - from);
  }
  for (std::size_t i = 0; i < part.first_share.back(); ++i) {
    const Share& share = table_->shares[from + i];
    part.shares.push_back({SlotId(share.slot.value - before), share.count});
  }
  return Assignment(std::move(part));
}

Assignment Assignment::joined(std::span<const Assignment> parts) {
  SlotTable table;
  bool split = false;
  for (const Assignment& part : parts) {
    for (auto& slots : part.placement().table()) table.push_back(std::move(slots));
    split |= part.split();
  }
  const int experts = parts.front().placement().experts();
  std::vector<std::vector<SlotId>> slot_of;
  std::vector<Share> shares;
  std::vector<std::size_t> first_share = {0};
  std::int64_t before = 0;  // slots of the parts before
  for (const Assignment& part : parts) {
    for (int rank = 0; rank < part.placement().gpus(); ++rank) {
      auto& row = slot_of.emplace_back(part.table_->slot_of[static_cast<std::size_t>(rank)]);
      for (SlotId& slot : row) slot = SlotId(before + slot.value);
      for (int e = 0; split && e < experts; ++e) {
        if (part.split()) {
          for (const Share& share : part.shares(GpuId(rank), ExpertId(e))) {
            shares.push_back({SlotId(before + share.slot.value), share.count});
          }
        } else {
          shares.push_back({row[static_cast<std::size_t>(e)], 1});
        }
        first_share.push_back(shares.size());
      }
    }
    before += part.placement().slots();
  }
  Table all = checked(Placement(experts, table), std::move(slot_of));
  if (split) {
    all.shares = std::move(shares);
    all.first_share = std::move(first_share);
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
