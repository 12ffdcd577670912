// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/counted_groups.h"

#include <algorithm>

namespace moesim {
namespace {

// Some 0.3 MB each if 64 ranks have 256 experts.
constexpr std::size_t most_groups = 64;  // of one layer
constexpr std::size_t most_groups_of_layers = 256;

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

}  // namespace

const RowCounts* CountedGroups::find(const EpGroups& groups, int group,
                                     const GroupPart& part) const {
  const auto alike = std::ranges::find_if(kept_, [&](const Counted& other) {
    return other.part.batch().ranks == part.batch().ranks &&
           other.part.assignment() == part.assignment() &&
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
