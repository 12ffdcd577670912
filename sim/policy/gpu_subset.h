// SPDX-License-Identifier: Apache-2.0
// Some GPUs of a plan, numbered by themselves: what a pipeline stage sees of the cluster.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/plan/group.h"

namespace moesim {

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
  const Group& in_plan(const Group& own) const;
  /// The number of a GPU of the plan; below 0 where it is not among them.
  GpuId own(GpuId in_plan) const { return own_[in_plan.index()]; }

 private:
  std::vector<GpuId> chosen_;
  std::vector<GpuId> own_;  // [GPU of the plan]
  mutable std::map<std::vector<GpuId>, Group> groups_;
};

}  // namespace moesim
