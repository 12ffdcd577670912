// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/best_slots.h"

#include <algorithm>
#include <array>

#include "sim/base/id_vector.h"
#include "sim/base/ordering.h"

namespace moesim {
namespace {

/// Loads of every GPU in every step, and what exchanging two experts does to the busiest ones.
class Search {
 public:
  Search(SlotTable slots, const LoadHistory& loads, int experts)
      : slots_(std::move(slots)), loads_(loads), gpu_of_(experts) {
    for (std::size_t g = 0; g < slots_.size(); ++g) {
      for (const ExpertId e : slots_[g]) gpu_of_[e] = g;
    }
    count();
  }

  /// Makes the best exchange; false when none helps.
  bool improve() {
    std::int64_t best = 0;
    ExpertId first, second;
    for (const ExpertId a : gpu_of_.ids()) {
      for (const ExpertId b : IdRange<ExpertId>(a.value + 1, std::ssize(gpu_of_))) {
        if (gpu_of_[a] == gpu_of_[b]) continue;
        const std::int64_t change = change_of(a, b);
        if (change < best) best = change, first = a, second = b;
      }
    }
    if (best == 0) return false;
    exchange(first, second);
    return true;
  }

  const SlotTable& slots() const { return slots_; }

 private:
  struct Top {
    std::int64_t load = -1;
    std::size_t gpu = 0;
  };

  void count() {
    gpu_loads_.assign(loads_.size(), std::vector<std::int64_t>(slots_.size()));
    top_.assign(loads_.size(), {});
    for (std::size_t s = 0; s < loads_.size(); ++s) {
      for (const ExpertId e : gpu_of_.ids()) gpu_loads_[s][gpu_of_[e]] += loads_[s][e.index()];
      for (std::size_t g = 0; g < slots_.size(); ++g) {
        Top entry{gpu_loads_[s][g], g};
        for (Top& top : top_[s]) {
          if (entry.load > top.load) std::swap(entry, top);
        }
      }
    }
  }

  /// Change of busiest_loads when two experts of different GPUs change places.
  std::int64_t change_of(ExpertId a, ExpertId b) const {
    const std::size_t x = gpu_of_[a], y = gpu_of_[b];
    std::int64_t change = 0;
    for (std::size_t s = 0; s < loads_.size(); ++s) {
      const std::int64_t more = loads_[s][b.index()] - loads_[s][a.index()];
      std::int64_t busiest = std::max(gpu_loads_[s][x] + more, gpu_loads_[s][y] - more);
      for (const Top& top : top_[s]) {
        if (top.gpu != x && top.gpu != y) {
          busiest = std::max(busiest, top.load);
          break;
        }
      }
      change += busiest - top_[s][0].load;
    }
    return change;
  }

  void exchange(ExpertId a, ExpertId b) {
    auto& of_first = slots_[gpu_of_[a]];
    auto& of_second = slots_[gpu_of_[b]];
    *std::find(of_first.begin(), of_first.end(), a) = b;
    *std::find(of_second.begin(), of_second.end(), b) = a;
    std::swap(gpu_of_[a], gpu_of_[b]);
    count();
  }

  SlotTable slots_;
  const LoadHistory& loads_;
  IdVector<ExpertId, std::size_t> gpu_of_;            // which GPU holds it
  std::vector<std::vector<std::int64_t>> gpu_loads_;  // [step][gpu]
  std::vector<std::array<Top, 3>> top_;               // [step] the busiest GPUs, descending
};

/// Heaviest first to the GPU of least load that has room for as many as `like` has there.
SlotTable packed(const SlotTable& like, const std::vector<std::int64_t>& loads) {
  SlotTable slots(like.size());
  std::vector<std::int64_t> sums(like.size());
  for (const ExpertId e : descending<ExpertId>(loads)) {
    std::size_t chosen = like.size();
    for (std::size_t g = 0; g < like.size(); ++g) {
      const bool room = slots[g].size() < like[g].size();
      if (room && (chosen == like.size() || sums[g] < sums[chosen])) chosen = g;
    }
    slots[chosen].push_back(e);
    sums[chosen] += loads[e.index()];
  }
  return slots;
}

}  // namespace

std::int64_t busiest_loads(const SlotTable& slots, const LoadHistory& loads) {
  std::int64_t sum = 0;
  for (const auto& step : loads) {
    std::int64_t busiest = 0;
    for (const auto& experts : slots) {
      std::int64_t load = 0;
      for (const ExpertId e : experts) load += step[e.index()];
      busiest = std::max(busiest, load);
    }
    sum += busiest;
  }
  return sum;
}

SlotTable best_slots(const LoadHistory& loads, int experts, int gpus) {
  const SlotTable contiguous = contiguous_placement(experts, gpus, gpus).table();
  std::vector<std::int64_t> sums(experts);
  for (const auto& step : loads) {
    for (std::size_t e = 0; e < sums.size(); ++e) sums[e] += step[e];
  }
  SlotTable start = packed(contiguous, sums);
  if (busiest_loads(contiguous, loads) <= busiest_loads(start, loads)) start = contiguous;
  Search search(std::move(start), loads, experts);
  while (search.improve()) {
  }
  return search.slots();
}

}  // namespace moesim
