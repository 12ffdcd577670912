// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/seen_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "sim/base/id_vector.h"

namespace moesim {

SeenGpus::SeenGpus(int cluster) : cluster_(cluster) {
  for (const GpuId gpu : ids<GpuId>(cluster)) gpus_.push_back(gpu);
}

SeenGpus::SeenGpus(std::vector<GpuId> gpus, int cluster)
    : gpus_(std::move(gpus)), cluster_(cluster) {
  if (gpus_.empty()) throw std::invalid_argument("a slice of a cluster without GPUs");
  std::vector<bool> seen(static_cast<std::size_t>(cluster));
  for (const GpuId gpu : gpus_) {
    if (gpu.value < 0 || gpu.value >= cluster || seen[gpu.index()]) {
      throw std::invalid_argument(
          fmt::format("GPU {} of {} twice in a slice, or in none", gpu.value, cluster));
    }
    seen[gpu.index()] = true;
  }
}

SeenGpus SeenGpus::of(const std::vector<GpuId>& seen) const {
  // Checked as ranks of this one first: the message speaks of what the caller gave.
  SeenGpus slice(seen, size());
  for (GpuId& gpu : slice.gpus_) gpu = gpus_[gpu.index()];
  return SeenGpus(std::move(slice.gpus_), cluster_);
}

std::vector<int> numbered_anew(const std::vector<int>& numbers) {
  std::map<int, int> known;
  std::vector<int> result;
  for (const int number : numbers) {
    result.push_back(known.emplace(number, static_cast<int>(known.size())).first->second);
  }
  return result;
}

std::vector<Level> levels_among(const std::vector<Level>& levels, const std::vector<GpuId>& gpus) {
  std::vector<Level> result;
  for (const Level& level : levels) {
    std::vector<int> group_of;
    for (const GpuId gpu : gpus) group_of.push_back(level.group_of[gpu.index()]);
    group_of = numbered_anew(group_of);
    const int groups = std::ranges::max(group_of) + 1;
    result.push_back({level.name, std::move(group_of), groups});
  }
  return result;
}

}  // namespace moesim
