// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/llep.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/base/ordering.h"

namespace moesim::llep {
namespace {

void check(std::size_t experts, int gpus) {
  if (gpus >= 1 && experts > 0 && experts % static_cast<std::size_t>(gpus) == 0) return;
  throw Error(fmt::format("LLEP cannot spread {} experts over {} GPUs", experts, gpus),
              "the GPUs must divide the experts");
}

std::vector<std::int64_t> native_loads(std::span<const std::int64_t> counts, int gpus) {
  std::vector<std::int64_t> loads(gpus);
  const std::size_t per_gpu = counts.size() / loads.size();
  for (std::size_t e = 0; e < counts.size(); ++e) loads[e / per_gpu] += counts[e];
  return loads;
}

/// The published code takes the total if a GPU's mean rounds down to 0.
std::int64_t capacity_of(std::int64_t total, int gpus, double alpha) {
  const std::int64_t mean = total / gpus;
  const std::int64_t capacity =
      mean > 0 ? static_cast<std::int64_t>(alpha * static_cast<double>(mean)) : total;
  return std::max<std::int64_t>(capacity, 1);
}

/// Deals out one expert after the other.
class Dealer {
 public:
  Dealer(std::span<const std::int64_t> counts, int gpus, const Parameters& parameters)
      : least_chunk_(parameters.least_chunk), pending_(native_loads(counts, gpus)) {
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    plan_.capacity = capacity_of(total, gpus, parameters.alpha);
    plan_.chunks.resize(counts.size());
    plan_.loads.resize(pending_.size());
  }

  void deal(ExpertId expert, std::int64_t count) {
    expert_ = expert;
    owner_ = owner(expert, static_cast<int>(plan_.chunks.size()), gpus());
    pending_[owner_.index()] -= count;
    dealt_ = 0;
    rest_ = count;
    const std::int64_t kept = gpus() == 1 ? count : std::min(count, room(owner_));
    if (kept > 0) give(owner_, kept);
    std::vector<GpuId> others = by_load();
    while (rest_ > 0) {
      const GpuId least = others.front();
      if (!give_first_fit(others)) give(least, rest_);  // nobody has room: beyond capacity
      // Upstream looks at the loads anew after every chunk only if the owner kept some.
      if (kept > 0 && rest_ > 0) others = by_load();
    }
  }

  Plan take() { return std::move(plan_); }

 private:
  int gpus() const { return static_cast<int>(pending_.size()); }
  std::int64_t load(GpuId gpu) const { return plan_.loads[gpu.index()] + pending_[gpu.index()]; }
  std::int64_t room(GpuId gpu) const { return plan_.capacity - load(gpu); }

  /// The GPUs but the owner, least loaded first.
  std::vector<GpuId> by_load() const {
    std::vector<GpuId> order;
    for (int g = 0; g < gpus(); ++g) {
      if (GpuId(g) != owner_) order.emplace_back(g);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](GpuId a, GpuId b) { return load(a) < load(b); });
    return order;
  }

  /// One chunk to the first that takes one worth a transfer.
  bool give_first_fit(const std::vector<GpuId>& order) {
    for (const GpuId gpu : order) {
      const std::int64_t chunk = std::min(rest_, room(gpu));
      if (chunk <= 0 || (chunk < least_chunk_ && chunk < rest_)) continue;
      give(gpu, chunk);
      return true;
    }
    return false;
  }

  void give(GpuId gpu, std::int64_t count) {
    plan_.chunks[expert_.index()].push_back({gpu, dealt_, dealt_ + count});
    plan_.loads[gpu.index()] += count;
    if (gpu != owner_) plan_.transfers.push_back({expert_, owner_, gpu});
    dealt_ += count;
    rest_ -= count;
  }

  std::int64_t least_chunk_;
  std::vector<std::int64_t> pending_;  // native loads of experts not dealt yet
  Plan plan_;
  ExpertId expert_;  // the one being dealt, its owner, token-slots dealt and not
  GpuId owner_;
  std::int64_t dealt_ = 0;
  std::int64_t rest_ = 0;
};

}  // namespace

Plan plan(std::span<const std::int64_t> counts, int gpus, const Parameters& parameters) {
  check(counts.size(), gpus);
  Dealer dealer(counts, gpus, parameters);
  for (const ExpertId expert : descending<ExpertId>(counts)) {
    if (counts[expert.index()] > 0) dealer.deal(expert, counts[expert.index()]);
  }
  return dealer.take();
}

bool applies(std::span<const std::int64_t> counts, int gpus, double lambda) {
  check(counts.size(), gpus);
  const std::vector<std::int64_t> loads = native_loads(counts, gpus);
  const std::int64_t total = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  const std::int64_t largest = *std::max_element(loads.begin(), loads.end());
  return total > 0 && static_cast<double>(largest) * gpus >= lambda * static_cast<double>(total);
}

SlotTable table(const Plan& plan) {
  const auto experts = static_cast<int>(plan.chunks.size());
  const auto gpus = static_cast<int>(plan.loads.size());
  std::vector<std::set<ExpertId>> received(plan.loads.size());
  for (const WeightMove& move : plan.transfers) received[move.to.index()].insert(move.expert);
  SlotTable slots(plan.loads.size());
  for (int e = 0; e < experts; ++e) {
    slots[owner(ExpertId(e), experts, gpus).index()].emplace_back(e);
  }
  for (std::size_t g = 0; g < slots.size(); ++g) {
    slots[g].insert(slots[g].end(), received[g].begin(), received[g].end());
  }
  return slots;
}

std::vector<std::vector<Shares>> shares(const Plan& plan, const LoadMatrix& loads) {
  const Placement placement(loads.experts(), table(plan));
  IdVector<GpuId, std::vector<Shares>> all(loads.sources());
  for (const ExpertId e : ids<ExpertId>(loads.experts())) {
    const std::vector<SlotId>& slots = placement.slots_of(e);
    const std::vector<Chunk>& chunks = plan.chunks[e.index()];
    auto chunk = chunks.begin();
    std::int64_t next = 0;  // the first token-slot not dealt yet
    for (const GpuId source : all.ids()) {
      Shares mine;
      const std::int64_t end = next + loads.at(source, e);
      while (next < end) {
        if (chunk == chunks.end()) throw Error("LLEP's plan is for fewer token-slots");
        const auto slot = std::find_if(slots.begin(), slots.end(),
                                       [&](SlotId s) { return placement.gpu_of(s) == chunk->gpu; });
        const std::int64_t last = std::min(end, chunk->last);
        mine.push_back({*slot, last - next});
        next = last;
        if (next == chunk->last) ++chunk;
      }
      if (mine.empty()) mine.push_back({slots.front(), 1});
      all[source].push_back(mine);
    }
  }
  return std::move(all).take();
}

}  // namespace moesim::llep
