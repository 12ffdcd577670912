// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/seen_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "sim/base/id_vector.h"

namespace moesim {

SeenGpus::SeenGpus(int cluster) {
  for (const GpuId gpu : ids<GpuId>(cluster)) gpus_.push_back(gpu);
}

SeenGpus::SeenGpus(std::vector<GpuId> gpus, int cluster)
    : gpus_(std::move(gpus)), rank_of_(static_cast<std::size_t>(cluster), -1) {
  if (gpus_.empty()) throw std::invalid_argument("a slice of a cluster without GPUs");
  for (const GpuId rank : ids_of<GpuId>(gpus_)) {
    const GpuId gpu = gpus_[rank.index()];
    if (gpu.value < 0 || gpu.value >= cluster || rank_of_[gpu.index()] >= 0) {
      throw std::invalid_argument(
          fmt::format("GPU {} of {} twice in a slice, or in none", gpu.value, cluster));
    }
    rank_of_[gpu.index()] = rank.value;
  }
}

SeenGpus SeenGpus::of(const std::vector<GpuId>& seen) const {
  // Checked as ranks of this one first: the message speaks of what the caller gave.
  SeenGpus slice(seen, size());
  const std::size_t cluster = rank_of_.empty() ? gpus_.size() : rank_of_.size();
  for (GpuId& gpu : slice.gpus_) gpu = gpus_[gpu.index()];
  return SeenGpus(std::move(slice.gpus_), static_cast<int>(cluster));
}

ByteMatrix SeenGpus::lifted(const ByteMatrix& traffic) const {
  if (rank_of_.empty()) return traffic;
  ByteMatrix all(traffic.unit());
  std::vector<ByteMatrix::Entry> row;
  for (const int rank : rank_of_) {
    row.clear();
    if (rank >= 0) {
      const auto entries = traffic.row(GpuId(rank));
      row.assign(entries.begin(), entries.end());
      for (ByteMatrix::Entry& entry : row) entry.to = gpus_[entry.to.index()];
      std::ranges::sort(row, {}, &ByteMatrix::Entry::to);
    }
    all.add_row(row);
  }
  return all;
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
    if (!std::ranges::is_sorted(group_of)) continue;  // a group comes back after another one
    const int groups = group_of.back() + 1;
    result.push_back({level.name, std::move(group_of), groups});
  }
  return result;
}

}  // namespace moesim
