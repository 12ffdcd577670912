// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/routing/serving_gpus.h"

#include "sim/trace/routing_trace.h"

namespace moesim {

ServingGpus::ServingGpus(const Assignment& assignment) : assignment_(assignment) {
  if (!assignment.split()) return;
  upcoming_.resize(static_cast<std::size_t>(assignment.placement().experts()));
  gpus_ = upcoming_;
}

void ServingGpus::enter(GpuId source) {
  if (source == source_) return;
  source_ = source;
  const int experts = assignment_.placement().experts();
  if (!assignment_.split()) {
    gpus_ = {assignment_.gpus(source), static_cast<std::size_t>(experts)};
    return;
  }
  walk_.emplace(assignment_, source);
  for (int e = 0; e < experts; ++e) advance(ExpertId(e));
}

void ServingGpus::serve(std::span<const std::uint16_t> experts) {
  if (!assignment_.split()) return;
  for (const std::uint16_t id : experts) {
    if (id != IdRows::dropped) advance(ExpertId(id));
  }
}

void ServingGpus::advance(ExpertId expert) {
  upcoming_[expert.index()] = assignment_.placement().gpu_of(walk_->next(expert));
}

}  // namespace moesim
