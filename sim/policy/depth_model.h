// SPDX-License-Identifier: Apache-2.0
// HierMoE's cost model on a simulated cluster: how long an all-to-all of each depth would take.
#pragma once

#include <map>
#include <string>

#include "sim/model/group_counts.h"
#include "sim/policy/dispatch.h"
#include "sim/policy/hierarchy.h"

namespace moesim {

/// The groups of a hierarchy's runs of `ep` ranks. Throws Unsuitable, saying what `who` cannot do,
/// where the groups of a level differ in size.
Nesting nesting_of(const Topology& topology, const Hierarchy& hierarchy, int ep,
                   const std::string& who);

/// d* of arXiv 2508.09591, section 1.3. The alpha-beta costs are fitted to the simulated network as
/// the paper fits them to nccl-tests; the counts are those of a layer's routing, which one
/// all-reduce tells every rank. Of several runs the slowest decides.
class DepthModel {
 public:
  DepthModel(const Topology& topology, Nesting nesting, Copies copies, CountReading reading,
             Bytes row);

  const Nesting& nesting() const { return nesting_; }
  /// 1..D.
  int best(const LayerTokens& tokens) const;
  /// The costs at about the size of the layer's exchanges: with few bytes latencies count that many
  /// bytes hide.
  const CollectiveCosts& costs(const LayerTokens& tokens) const;

 private:
  GroupCounts count(const LayerTokens& tokens, std::size_t first) const;

  const Topology& topology_;
  Nesting nesting_;
  Copies copies_;
  CountReading reading_;
  Bytes row_;
  mutable std::map<std::uint64_t, CollectiveCosts> costs_;  // by size of the send buffers
};

}  // namespace moesim
