// SPDX-License-Identifier: Apache-2.0
#include "sim/report/gpu_work.h"

#include <algorithm>
#include <utility>

#include "sim/plan/phases.h"
#include "sim/report/continued.h"
#include "sim/report/spans.h"

namespace moesim {

WorkOfGpus::WorkOfGpus(std::size_t gpus, const Interval& window)
    : window_(window), busy_(gpus), joined_(gpus) {
  for (auto& part : kernels_) part.resize(gpus);
  for (auto& part : moving_) part.resize(gpus);
}

void WorkOfGpus::add(const Op& op, const std::vector<Interval>& times) {
  inside_.resize(times.size());
  for (std::size_t m = 0; m < times.size(); ++m) inside_[m] = within(times[m], window_);
  if (op.exchange() != nullptr) return add_exchange(op);
  if (is_minimum_time(op)) {
    add_intervals(joined_, op.group, inside_);
    return add_intervals(moving_of(IterationPart::tokens), op.group, inside_);
  }
  const bool of_host = std::holds_alternative<HostWork>(op.kernels()->each().front());
  const IterationPart part = of_host ? IterationPart::host : part_of(op);
  if (op.stream == Stream::stash) return add_intervals(moving_of(part), op.group, inside_);
  if (op.stream != Stream::compute) return;
  std::vector<Seconds>& kernels = kernels_[static_cast<std::size_t>(part)];
  const std::vector<GpuId>& gpus = op.group.list();
  for (std::size_t m = 0; m < inside_.size(); ++m) {
    const auto& [start, end] = inside_[m];
    if (start < end) kernels[gpus[m].index()] += end - start;
  }
  kernels_run_.add(busy_, op.group, inside_);
}

void WorkOfGpus::add_exchange(const Op& op) {
  const IterationPart part = part_of(op);
  if (part == IterationPart::bubble) return;
  if (part == IterationPart::offload) {  // nobody joins it, and kernels wait for what comes back
    if (op.stream == Stream::from_host) add_intervals(moving_of(part), op.group, inside_);
    return;
  }
  add_intervals(joined_, op.group, inside_);
  const std::vector<Seconds> begins = moving_from(op, inside_);
  for (std::size_t m = 0; m < inside_.size(); ++m) {
    const auto in = static_cast<std::size_t>(op.place_of(m).collective);
    inside_[m].start = std::max(inside_[m].start, begins[in]);
  }
  add_intervals(moving_of(part), op.group, inside_);
}

void WorkOfGpus::add_intervals(GpuIntervals& lists, const Group& group,
                               const std::vector<Interval>& times) {
  const std::vector<GpuId>& gpus = group.list();
  for (std::size_t m = 0; m < times.size(); ++m) {
    if (times[m].start < times[m].end) add_interval(lists[gpus[m].index()], times[m]);
  }
}

GpuWork WorkOfGpus::take(GpuId gpu) {
  GpuWork work;
  for (std::size_t p = 0; p < work.kernels.size(); ++p) {
    work.kernels[p] = kernels_[p][gpu.index()];
    work.moving[p] = std::move(moving_[p][gpu.index()]);
  }
  work.busy = std::move(busy_[gpu.index()]);
  work.joined = std::move(joined_[gpu.index()]);
  return work;
}

}  // namespace moesim
