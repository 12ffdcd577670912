// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/gpu_subset.h"

#include <algorithm>

namespace moesim {

GpuSubset::GpuSubset(std::vector<GpuId> chosen, int gpus)
    : chosen_(std::move(chosen)), own_(static_cast<std::size_t>(gpus), GpuId(-1)) {
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    own_.at(chosen_[i].index()) = GpuId(static_cast<std::int64_t>(i));
  }
}

const Group& GpuSubset::in_plan(const Group& own) const {
  Group& known = groups_[own.list()];
  if (known.empty() && !own.empty()) {
    std::vector<GpuId> gpus;
    for (const GpuId gpu : own) gpus.push_back(in_plan(gpu));
    known = Group(std::move(gpus));
  }
  return known;
}

}  // namespace moesim
