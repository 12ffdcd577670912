// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/counted_groups.h"

#include <algorithm>

namespace moesim {
namespace {

constexpr std::size_t most_groups = 64;  // of one layer
constexpr std::size_t most_groups_of_layers =
    256;  // some 0.3 MB each where 64 ranks have 256 experts

/// Whether ranks nest alike: a mechanism knows nothing else of a group.
bool nest_alike(const RankSpace& a, const RankSpace& b) {
  if (&a == &b) return true;
  if (a.depth() != b.depth() || a.hosts().groups() != b.hosts().groups()) return false;
  if (a.spread() != b.spread() || a.shared() != b.shared()) return false;
  for (int i = 0; i < a.depth(); ++i) {
    const RankLevel &of_a = a.level(i), &of_b = b.level(i);
    if (of_a.groups() != of_b.groups() || of_a.across() != of_b.across()) return false;
  }
  return true;
}

/// A group among the tokens and slots of all: those of its ranks follow each other.
struct GroupIn {
  const Batch& batch;
  const Assignment& assignment;
  GpuId first;

  const std::vector<TokenRun>& held(int rank) const { return batch.ranks[gpu(rank).index()]; }
  GpuId gpu(int rank) const { return GpuId(first.value + rank); }
  SlotId first_slot() const { return assignment.placement().first_slot(first); }
};

bool hold_same_tokens(const GroupIn& a, const GroupIn& b, int ranks) {
  const auto same_run = [](const TokenRun& x, const TokenRun& y) {
    return x.first == y.first && x.count == y.count;
  };
  for (int r = 0; r < ranks; ++r) {
    if (!std::ranges::equal(a.held(r), b.held(r), same_run)) return false;
  }
  return true;
}

bool have_same_slots(const GroupIn& a, const GroupIn& b, int ranks) {
  const Placement &of_a = a.assignment.placement(), &of_b = b.assignment.placement();
  if (a.assignment.split() != b.assignment.split()) return false;
  const auto behind = b.first_slot().value - a.first_slot().value;
  for (int r = 0; r < ranks; ++r) {
    const GpuId in_a = a.gpu(r), in_b = b.gpu(r);
    if (of_a.slots_on(in_a) != of_b.slots_on(in_b)) return false;
    for (int i = 0; i < of_a.slots_on(in_a); ++i) {
      const SlotId slot(of_a.first_slot(in_a).value + i);
      if (of_a.expert_in(slot) != of_b.expert_in(SlotId(slot.value + behind))) return false;
    }
    for (int e = 0; e < of_a.experts(); ++e) {
      const ExpertId expert(e);
      if (a.assignment.slot(in_a, expert).value + behind != b.assignment.slot(in_b, expert).value) {
        return false;
      }
      if (!a.assignment.split()) continue;
      const auto same_share = [&](const Share& x, const Share& y) {
        return x.slot.value + behind == y.slot.value && x.count == y.count;
      };
      if (!std::ranges::equal(a.assignment.shares(in_a, expert), b.assignment.shares(in_b, expert),
                              same_share)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

const RowCounts* CountedGroups::find(const EpGroups& groups, const LayerTokens& tokens,
                                     int group) const {
  const GroupIn wanted{tokens.batch, tokens.assignment, groups.gpu(group, GpuId(0))};
  const int ranks = groups.size();
  const auto alike = std::ranges::find_if(kept_, [&](const Counted& other) {
    if (other.groups.size() != ranks) return false;
    const GroupIn known{other.part.batch(), other.part.assignment(), GpuId(0)};
    return hold_same_tokens(known, wanted, ranks) && have_same_slots(known, wanted, ranks) &&
           nest_alike(other.groups.ranks(other.group), groups.ranks(group));
  });
  return alike == kept_.end() ? nullptr : &alike->counts;
}

void CountedGroups::add(const EpGroups& groups, int group, GroupPart part,
                        const RowCounts& counts) {
  if (kept_.size() < most_groups) kept_.push_back({groups, group, std::move(part), counts});
}

CountedGroups& CountedLayers::of(const void* ids, std::size_t option) {
  const auto known = layers_.find({ids, option});
  if (known != layers_.end()) return known->second;
  std::size_t kept = 0;
  for (const auto& [key, layer] : layers_) kept += layer.size();
  if (kept < most_groups_of_layers) return layers_[{ids, option}];
  return last_ = CountedGroups();
}

}  // namespace moesim
