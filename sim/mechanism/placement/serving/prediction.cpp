// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::prediction {
namespace {

/// Which GPUs hold which experts, and the loads when the copies of an expert share evenly.
class Sharing {
 public:
  Sharing(std::span<const double> loads, const SlotTable& base)
      : loads_(loads), gpu_loads_(base.size()), holders_(loads.size()) {
    for (std::size_t g = 0; g < base.size(); ++g) {
      for (const ExpertId expert : base[g]) holders_[expert.index()].push_back(g);
    }
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (holders_[e].empty()) throw Error(fmt::format("no GPU holds expert {}", e));
      for (const std::size_t g : holders_[e]) gpu_loads_[g] += share(e);
    }
  }

  const std::vector<double>& gpu_loads() const { return gpu_loads_; }
  int copies(std::size_t e) const { return static_cast<int>(holders_[e].size()); }
  bool holds(std::size_t gpu, ExpertId expert) const {
    const auto& holders = holders_[expert.index()];
    return std::find(holders.begin(), holders.end(), gpu) != holders.end();
  }

  /// Adds the copy unless the largest GPU load grows.
  bool add(ExpertId expert, std::size_t gpu) {
    const std::size_t e = expert.index();
    const double largest = *std::max_element(gpu_loads_.begin(), gpu_loads_.end());
    const double after = loads_[e] / (copies(e) + 1);
    if (gpu_loads_[gpu] + after > largest) return false;
    for (const std::size_t g : holders_[e]) gpu_loads_[g] -= share(e) - after;
    gpu_loads_[gpu] += after;
    holders_[e].push_back(gpu);
    return true;
  }

 private:
  double share(std::size_t e) const { return loads_[e] / copies(e); }

  std::span<const double> loads_;
  std::vector<double> gpu_loads_;
  std::vector<std::vector<std::size_t>> holders_;
};

/// How many copies more every expert ought to have.
std::vector<int> wanted_copies(std::span<const double> loads, const Sharing& sharing, int gpus,
                               int slots) {
  using Item = std::pair<double, std::size_t>;
  const auto lighter = [](const Item& a, const Item& b) {
    return a.first < b.first || (a.first == b.first && a.second > b.second);
  };
  std::priority_queue<Item, std::vector<Item>, decltype(lighter)> heaviest(lighter);
  std::vector<int> wanted(loads.size());
  const auto push = [&](std::size_t e) {
    const int copies = sharing.copies(e) + wanted[e];
    if (copies < gpus) heaviest.emplace(loads[e] / copies, e);
  };
  for (std::size_t e = 0; e < loads.size(); ++e) push(e);
  for (; slots > 0 && !heaviest.empty(); --slots) {
    const std::size_t e = heaviest.top().second;
    heaviest.pop();
    ++wanted[e];
    push(e);
  }
  return wanted;
}

/// Wanted copies, the heaviest share first, then by expert.
std::vector<ExpertId> heaviest_first(std::span<const double> loads, const Sharing& sharing,
                                     const std::vector<int>& wanted) {
  std::vector<std::pair<double, ExpertId>> copies;
  for (const ExpertId expert : ids_of<ExpertId>(loads)) {
    const std::size_t e = expert.index();
    const double share = loads[e] / (sharing.copies(e) + wanted[e]);
    copies.insert(copies.end(), static_cast<std::size_t>(wanted[e]), {share, expert});
  }
  std::stable_sort(copies.begin(), copies.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<ExpertId> order;
  for (const auto& [share, expert] : copies) order.push_back(expert);
  return order;
}

/// Places copies one by one.
class Placer {
 public:
  Placer(Sharing sharing, int extra_per_gpu)
      : sharing_(std::move(sharing)), room_(static_cast<std::size_t>(extra_per_gpu)) {
    copies_.extra.resize(sharing_.gpu_loads().size());
  }

  /// On the lowest GPU of `current` that has it and is not yet used for it; false if there is none.
  bool keep(ExpertId expert, const SlotTable& current) {
    for (std::size_t g = 0; g < current.size(); ++g) {
      const bool there =
          std::find(current[g].begin(), current[g].end(), expert) != current[g].end();
      if (!there || !free(g, expert)) continue;
      if (!sharing_.add(expert, g)) continue;
      copies_.extra[g].push_back(expert);
      return true;
    }
    return false;
  }

  void place(ExpertId expert) {
    const std::vector<double>& loads = sharing_.gpu_loads();
    std::size_t best = loads.size();
    for (std::size_t g = 0; g < loads.size(); ++g) {
      if (free(g, expert) && (best == loads.size() || loads[g] < loads[best])) best = g;
    }
    if (best < loads.size() && sharing_.add(expert, best)) {
      copies_.extra[best].push_back(expert);
    } else {
      copies_.dropped.push_back(expert);
    }
  }

  Copies take() {
    copies_.gpu_loads = sharing_.gpu_loads();
    return std::move(copies_);
  }

 private:
  bool free(std::size_t gpu, ExpertId expert) const {
    return copies_.extra[gpu].size() < room_ && !sharing_.holds(gpu, expert);
  }

  Sharing sharing_;
  std::size_t room_;
  Copies copies_;
};

/// The slots that serve a rank's choices of an expert.
std::vector<SlotId> nearest(const Placement& placement, ExpertId expert, GpuId source,
                            const RankLevel& nodes) {
  const std::vector<SlotId>& all = placement.slots_of(expert);
  std::vector<SlotId> in_node;
  for (const SlotId slot : all) {
    const GpuId gpu = placement.gpu_of(slot);
    if (gpu == source) return {slot};
    if (nodes.group_of(gpu) == nodes.group_of(source)) in_node.push_back(slot);
  }
  return in_node.empty() ? all : in_node;
}

std::vector<double> inverse_loads(const Placement& placement, std::span<const SlotId> slots,
                                  std::span<const double> gpu_loads) {
  std::vector<double> weights;
  bool idle = false;
  for (const SlotId slot : slots) {
    weights.push_back(gpu_loads[placement.gpu_of(slot).index()]);
    idle |= weights.back() <= 0;
  }
  for (double& weight : weights) {
    weight = idle ? (weight <= 0 ? 1.0 : 0.0) : 1 / weight;
  }
  return weights;
}

}  // namespace

void FadingLoad::add(const LoadMatrix& loads, bool begins) {
  const std::vector<std::int64_t> counts = loads.per_expert();
  if (begins) {
    before_ = load_;
    newest_.assign(counts.size(), 0);
  }
  for (std::size_t e = 0; e < counts.size(); ++e) newest_[e] += static_cast<double>(counts[e]);
  load_ = newest_;
  if (before_.empty()) return;
  for (std::size_t e = 0; e < load_.size(); ++e) {
    load_[e] = kept_ * before_[e] + added_ * newest_[e];
  }
}

Copies replicate(std::span<const double> loads, const SlotTable& base, const SlotTable& current,
                 int extra_per_gpu) {
  const auto gpus = static_cast<int>(base.size());
  if (extra_per_gpu < 0 || (!current.empty() && current.size() != base.size())) {
    throw Error(fmt::format("no copies on {} GPUs with {} further slots each and {} rows of copies",
                            gpus, extra_per_gpu, current.size()));
  }
  Sharing sharing(loads, base);
  const std::vector<int> wanted = wanted_copies(loads, sharing, gpus, gpus * extra_per_gpu);
  const std::vector<ExpertId> order = heaviest_first(loads, sharing, wanted);
  Placer placer(std::move(sharing), extra_per_gpu);
  std::vector<ExpertId> fresh;
  for (const ExpertId expert : order) {
    if (!placer.keep(expert, current)) fresh.push_back(expert);
  }
  for (const ExpertId expert : fresh) placer.place(expert);
  return placer.take();
}

SlotTable table(const SlotTable& base, const Copies& copies) {
  SlotTable all = base;
  for (std::size_t g = 0; g < all.size(); ++g) {
    all[g].insert(all[g].end(), copies.extra[g].begin(), copies.extra[g].end());
  }
  return all;
}

std::vector<std::vector<Shares>> shares(const Placement& placement, const LoadMatrix& loads,
                                        std::span<const double> gpu_loads, const RankLevel& nodes) {
  IdVector<GpuId, std::vector<Shares>> all(loads.sources());
  for (const GpuId source : all.ids()) {
    for (const ExpertId e : ids<ExpertId>(loads.experts())) {
      const std::vector<SlotId> slots = nearest(placement, e, source, nodes);
      const std::vector<std::int64_t> parts =
          apportion(loads.at(source, e), inverse_loads(placement, slots, gpu_loads));
      Shares mine;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (parts[i] > 0) mine.push_back({slots[i], parts[i]});
      }
      if (mine.empty()) mine.push_back({slots.front(), 1});
      all[source].push_back(mine);
    }
  }
  return std::move(all).take();
}

}  // namespace moesim::prediction
