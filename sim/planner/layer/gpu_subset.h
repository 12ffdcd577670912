// SPDX-License-Identifier: Apache-2.0
// Some GPUs of a plan, numbered by themselves: what a pipeline stage sees of the cluster.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/collective/collective.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Members by the host of their GPU.
MemberNodes nodes_of(const std::vector<GpuId>& members, const Topology& topology);

/// GPUs of a plan under numbers 0 .. size() - 1 of their own.
class GpuSubset {
 public:
  /// All `gpus` GPUs of a plan, under their numbers.
  static GpuSubset all(int gpus) { return {Group::first(gpus).list(), gpus}; }
  /// Number i stands for chosen[i], of `gpus` GPUs.
  GpuSubset(std::vector<GpuId> chosen, int gpus);

  int size() const { return static_cast<int>(chosen_.size()); }
  GpuId in_plan(GpuId own) const { return chosen_[own.index()]; }
  /// One list per group of numbers, however often it is asked for.
  const Group& in_plan(const Group& own) const { return members(own).group; }
  /// The number of a GPU of the plan; below 0 if it is not among them.
  GpuId own(GpuId in_plan) const { return own_[in_plan.index()]; }
  /// Whether all of them are in a group of the plan.
  bool all_in(const Group& of_plan) const;
  /// From a group under own numbers to the plan's: kernels and traffic of members follow them if
  /// own numbers ascend otherwise than the plan's.
  void to_plan(Op& op) const;

 private:
  using Several = decltype(Exchange::collectives);
  /// A group of the plan, and which own member each of its members is; empty: in the same order.
  struct Members {
    Group group;
    std::vector<std::size_t> order;
    // What has been put in order, by identity, which what it was made of keeps taken.
    std::map<const void*, std::pair<ByteMatrix, ByteMatrix>> traffic;
    std::map<const void*, std::pair<Kernels, Kernels>> kernels;
    std::map<const void*, std::pair<Several, Several>> collectives;
  };
  Members& members(const Group& own) const;
  Members& found(const Group& own) const;

  /// What is known of a group's list, which it keeps where it is.
  template <class Value>
  using ByList = std::unordered_map<const std::vector<GpuId>*, std::pair<Group, Value>>;
  std::vector<GpuId> chosen_;
  std::vector<GpuId> own_;  // [GPU of the plan]
  mutable std::map<std::vector<GpuId>, Members> groups_;
  mutable ByList<Members*> members_of_;
  mutable ByList<bool> all_in_;
};

}  // namespace moesim
