// SPDX-License-Identifier: Apache-2.0
// HierMoE's cost model on a simulated cluster: how long an all-to-all of each depth would take.
#pragma once

#include <map>
#include <string>

#include "sim/mechanism/dispatch.h"
#include "sim/model/group_counts.h"

namespace moesim {

/// The levels of the EP groups. Throws Unsuitable, saying what `who` cannot do, if the groups of a
/// level differ in size.
Nesting nesting_of(const EpGroups& groups, const std::string& who);

/// d* of arXiv 2508.09591, section 1.3. The alpha-beta costs are fitted to the simulated network as
/// the paper fits them to nccl-tests; the counts are those of a layer's routing, which one
/// all-reduce tells every rank. If there are several EP groups, the slowest decides.
class DepthModel {
 public:
  DepthModel(EpGroups groups, Nesting nesting, Copies copies, CountReading reading, Bytes row);

  const Nesting& nesting() const { return nesting_; }
  /// 1..D.
  int best(const LayerTokens& tokens) const;
  /// The costs at about the size of the layer's exchanges: with few bytes latencies count that many
  /// bytes hide.
  const CollectiveCosts& costs(const LayerTokens& tokens) const;

 private:
  GroupCounts count(const LayerTokens& of_group) const;

  EpGroups groups_;
  Nesting nesting_;
  Copies copies_;
  CountReading reading_;
  Bytes row_;
  mutable std::map<std::uint64_t, CollectiveCosts> costs_;  // by size of the send buffers
};

}  // namespace moesim
