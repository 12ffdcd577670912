// SPDX-License-Identifier: Apache-2.0
// Hecate's heterogeneous sharding.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "sim/base/error.h"
#include "sim/mechanism/placement/training/hecate.h"

namespace moesim {
namespace {

using Loads = std::vector<std::int64_t>;

/// The slots of all GPUs. The layers share them, so a GPU may own more experts of one layer than of
/// another.
class Shards {
 public:
  Shards(std::size_t layers, std::vector<int> free_slots, int gpus_per_node)
      : tables(layers, SlotTable(free_slots.size())),
        free_(std::move(free_slots)),
        per_node_(static_cast<std::size_t>(gpus_per_node)) {}

  /// Places experts of one layer, in order, each on the least loaded node, there on the least
  /// loaded GPU.
  void balance(std::size_t layer, std::span<const ExpertId> experts, const Loads& loads) {
    Loads gpu_load(free_.size());
    Loads node_load(free_.size() / per_node_);
    for (const ExpertId e : experts) {
      place(layer, e, [&](std::size_t gpu) {
        const std::size_t node = gpu / per_node_;
        return std::tuple(node_load[node], node_free(node), node, gpu_load[gpu], free_[gpu]);
      });
      gpu_load[placed_] += loads[e.index()];
      node_load[placed_ / per_node_] += loads[e.index()];
    }
  }

  /// Places experts of one layer where most slots are free.
  void fill(std::size_t layer, std::span<const ExpertId> experts) {
    for (const ExpertId e : experts) {
      place(layer, e, [&](std::size_t gpu) {
        const std::size_t node = gpu / per_node_;
        return std::tuple(-node_free(node), node, -free_[gpu]);
      });
    }
  }

  std::vector<SlotTable> tables;

 private:
  int node_free(std::size_t node) const {
    const auto first = free_.begin() + static_cast<std::ptrdiff_t>(node * per_node_);
    return std::accumulate(first, first + static_cast<std::ptrdiff_t>(per_node_), 0);
  }

  /// Takes a slot of the GPU with the least key(gpu) among the GPUs that have one; ties: lowest id.
  template <class Key>
  void place(std::size_t layer, ExpertId expert, Key key) {
    std::size_t best = free_.size();
    for (std::size_t gpu = 0; gpu < free_.size(); ++gpu) {
      if (free_[gpu] > 0 && (best == free_.size() || key(gpu) < key(best))) best = gpu;
    }
    --free_[best];
    tables[layer][best].push_back(expert);
    placed_ = best;
  }

  std::vector<int> free_;
  std::size_t per_node_;
  std::size_t placed_ = 0;
};

/// The slots of every GPU, as even as can be; the first GPUs have one more.
std::vector<int> even_slots(std::size_t experts, int gpus) {
  const auto n = static_cast<std::size_t>(gpus);
  std::vector<int> slots;
  for (std::size_t gpu = 0; gpu < n; ++gpu) {
    slots.push_back(static_cast<int>(experts / n + (gpu < experts % n)));
  }
  return slots;
}

}  // namespace

std::vector<SlotTable> hecate_shards(const std::vector<Loads>& loads, int top, int gpus,
                                     int gpus_per_node) {
  if (gpus < 1 || gpus_per_node < 1 || gpus % gpus_per_node != 0) {
    throw Error(fmt::format("{} GPUs do not form nodes of {}", gpus, gpus_per_node));
  }
  std::size_t experts = 0;
  std::vector<std::vector<ExpertId>> order;
  std::vector<std::size_t> layers;
  for (const Loads& layer : loads) {
    layers.push_back(order.size());
    order.push_back(heaviest_first(layer));
    experts += layer.size();
  }
  const auto split = [&](std::size_t layer) {
    return std::min(static_cast<std::size_t>(std::max(top, 0)), order[layer].size());
  };
  const auto heaviest_below = [&](std::size_t layer) {
    const std::size_t first = split(layer);
    return first == order[layer].size() ? -1 : loads[layer][order[layer][first].index()];
  };
  std::ranges::stable_sort(layers, std::greater<>{}, heaviest_below);
  Shards shards(loads.size(), even_slots(experts, gpus), gpus_per_node);
  for (const std::size_t layer : layers) {
    shards.balance(layer, std::span(order[layer]).subspan(split(layer)), loads[layer]);
  }
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    shards.fill(layer, std::span(order[layer]).first(split(layer)));
  }
  return std::move(shards.tables);
}

std::vector<ExpertTransfer> reshard_transfers(const SlotTable& before, const SlotTable& after,
                                              Bytes state) {
  const std::vector<GpuId> from = owners_of(before);
  const std::vector<GpuId> to = owners_of(after);
  if (from.size() != to.size()) {
    throw Error(fmt::format("shards of {} experts become shards of {}", from.size(), to.size()));
  }
  std::vector<ExpertTransfer> transfers;
  for (std::size_t e = 0; e < from.size(); ++e) {
    if (from[e] == to[e]) continue;
    transfers.push_back({ExpertId(static_cast<std::int64_t>(e)), from[e], to[e], state});
  }
  return transfers;
}

}  // namespace moesim
