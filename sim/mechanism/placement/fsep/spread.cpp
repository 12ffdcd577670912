// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/spread.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim::fsep {

Reach::Reach(const Placement& placement, int ranks_per_node)
    : placement_(placement), ranks_per_node_(ranks_per_node) {
  if (ranks_per_node < 1 || placement.gpus() % ranks_per_node != 0) {
    throw Error(fmt::format("{} ranks cannot form nodes of {}", placement.gpus(), ranks_per_node),
                "the ranks per node must divide the number of ranks");
  }
  nodes_ = placement.gpus() / ranks_per_node;
  const auto nodes = static_cast<std::size_t>(nodes_);
  runs_.resize(nodes * static_cast<std::size_t>(placement.experts()));
  for (int slot = 0; slot < placement.slots(); ++slot) {
    const auto node =
        static_cast<std::size_t>(placement.gpu_of(SlotId(slot)).value / ranks_per_node);
    ++runs_[placement.expert_in(SlotId(slot)).index() * nodes + node].size;
  }
  for (std::size_t expert = 0; expert < runs_.size(); expert += nodes) {
    std::uint32_t first = 0;
    for (std::size_t node = 0; node < nodes; ++node) {
      runs_[expert + node].first = first;
      first += runs_[expert + node].size;
    }
  }
}

namespace {

/// Adds up sources that spread their choices over the same slots: only the whole shares, and how
/// many sources end at which slot, matter.
class Sharers {
 public:
  struct Part {
    std::int64_t whole;  // for every slot
    std::int64_t rest;   // the first so many slots get one more
  };

  explicit Sharers(std::size_t slots) : ends_(slots) {}

  Part add(std::int64_t choices) {
    const auto w = static_cast<std::int64_t>(ends_.size());
    const Part part{choices / w, choices % w};
    whole_ += part.whole;
    rests_ += part.rest;
    ++ends_[part.rest];
    return part;
  }

  /// All choices added so far.
  std::int64_t choices() const { return whole_ * static_cast<std::int64_t>(ends_.size()) + rests_; }
  std::int64_t rests() const { return rests_; }

  void give(std::span<const SlotId> slots, Spread& sums) const {
    const double extra = static_cast<double>(rests_) / static_cast<double>(slots.size());
    std::int64_t sources_beyond = 0;  // sources whose rest reaches past the slot
    for (std::size_t p = slots.size(); p-- > 0; sources_beyond += ends_[p]) {
      sums.slots[slots[p].index()] += whole_ + sources_beyond;
      sums.slots_planner_extra[slots[p].index()] += extra;
    }
  }

 private:
  std::int64_t whole_ = 0;
  std::int64_t rests_ = 0;
  std::vector<std::int64_t> ends_;  // sources by rest
};

/// The choices of one node's ranks for an expert that has slots on that node.
void spread_locally(const LoadMatrix& loads, const Reach& reach, int node, ExpertId expert,
                    Spread& sums) {
  const std::span<const SlotId> slots = reach.slots(node, expert);
  const Placement& placement = reach.placement();
  Sharers sharers(slots.size());
  std::size_t next = 0;
  std::int64_t own = 0;
  double own_extra = 0;
  const int first = node * reach.ranks_per_node();
  for (int rank = first; rank < first + reach.ranks_per_node(); ++rank) {
    const std::size_t begin = next;
    while (next < slots.size() && placement.gpu_of(slots[next]).value == rank) ++next;
    const auto part = sharers.add(loads.at(GpuId(rank), expert));
    const auto copies = static_cast<std::int64_t>(next - begin);
    const auto before = static_cast<std::int64_t>(begin);
    own += copies * part.whole + std::clamp<std::int64_t>(part.rest - before, 0, copies);
    own_extra += static_cast<double>(copies * part.rest) / static_cast<double>(slots.size());
  }
  sharers.give(slots, sums);
  sums.distance.same_rank += own;
  sums.distance.same_node += sharers.choices() - own;
  sums.distance_planner_extra.same_rank += own_extra;
  sums.distance_planner_extra.same_node += static_cast<double>(sharers.rests()) - own_extra;
}

}  // namespace

void check_shapes(const LoadMatrix& loads, const Placement& placement) {
  if (loads.sources() != placement.gpus() || loads.experts() != placement.experts()) {
    throw Error(fmt::format("loads of {} ranks and {} experts, a placement of {} and {}",
                            loads.sources(), loads.experts(), placement.gpus(),
                            placement.experts()));
  }
}

Spread spread(const LoadMatrix& loads, const Reach& reach) {
  const Placement& placement = reach.placement();
  check_shapes(loads, placement);
  Spread sums;
  sums.slots.resize(placement.slots());
  sums.slots_planner_extra.resize(sums.slots.size());
  for (int e = 0; e < loads.experts(); ++e) {
    const ExpertId expert(e);
    Sharers remote(placement.slots_of(expert).size());
    for (int node = 0; node < reach.nodes(); ++node) {
      if (reach.local(node, expert)) {
        spread_locally(loads, reach, node, expert, sums);
        continue;
      }
      const int first = node * reach.ranks_per_node();
      for (int rank = first; rank < first + reach.ranks_per_node(); ++rank) {
        remote.add(loads.at(GpuId(rank), expert));
      }
    }
    remote.give(placement.slots_of(expert), sums);
    sums.distance.other_node += remote.choices();
    sums.distance_planner_extra.other_node += static_cast<double>(remote.rests());
  }
  return sums;
}

}  // namespace moesim::fsep
