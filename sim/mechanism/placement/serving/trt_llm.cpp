// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/trt_llm.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "sim/base/error.h"
#include "sim/mechanism/placement/serving/eplb.h"

namespace moesim::trt_llm {
namespace {

constexpr std::int64_t block_size = 1024;  // token-slots per thread block of the routing kernel

}  // namespace

std::vector<int> replicate(std::span<const double> loads, int slots) {
  const auto experts = static_cast<int>(loads.size());
  if (experts < 1 || slots < experts) {
    throw Error(fmt::format("TensorRT-LLM cannot place {} experts in {} slots", experts, slots),
                "every expert needs a slot");
  }
  std::vector<int> copies(loads.size(), 1);
  if (std::all_of(loads.begin(), loads.end(), [](double load) { return load == 0; })) {
    for (int e = 0; e < experts; ++e) {
      copies[e] = slots / experts + (e < slots % experts ? 1 : 0);
    }
    return copies;
  }
  std::priority_queue<std::pair<double, int>>
      heaviest;  // a pair of equals has the higher id on top
  for (int e = 0; e < experts; ++e) heaviest.emplace(loads[e], e);
  for (int slot = experts; slot < slots; ++slot) {
    const int expert = heaviest.top().second;
    const auto e = static_cast<std::size_t>(expert);
    heaviest.pop();
    heaviest.emplace(loads[e] / ++copies[e], expert);
  }
  return copies;
}

SlotTable place(std::span<const double> loads, int ranks, int slots_per_rank) {
  const std::vector<int> copies = replicate(loads, ranks * slots_per_rank);
  std::vector<double> weights;
  std::vector<ExpertId> experts;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    for (int copy = 0; copy < copies[e]; ++copy) {
      weights.push_back(loads[e] / copies[e]);
      experts.emplace_back(static_cast<std::int64_t>(e));
    }
  }
  const eplb::Packing packing = eplb::pack_sorted(weights, ranks);
  SlotTable table(ranks, std::vector<ExpertId>(slots_per_rank));
  for (std::size_t i = 0; i < experts.size(); ++i) {
    table[packing.pack[i]][packing.rank[i]] = experts[i];
  }
  return table;
}

Rotation::Rotation(int layers, int per_iteration) : layers_(layers), sets_(1) {
  if (layers < 1 || per_iteration < 1) {
    throw Error(fmt::format("no rotation of {} layers, {} per iteration", layers, per_iteration));
  }
  sets_ = (layers + per_iteration - 1) / per_iteration;
}

std::vector<int> Rotation::layers_at(std::int64_t iteration) const {
  std::vector<int> layers;
  const auto set = static_cast<int>(iteration % period());
  for (int layer = set; set < sets_ && layer < layers_; layer += sets_) layers.push_back(layer);
  return layers;
}

Shares round_robin(std::span<const Choice> choices, int k, std::span<const SlotId> replicas,
                   int offset) {
  std::int64_t block = -1;
  std::int64_t first = 0;  // the block's first choice of this expert
  return shares_by(choices, replicas, [&](std::int64_t i, const Choice& choice) {
    const std::int64_t now = (choice.token * k + choice.position) / block_size;
    if (now != block) first = i;
    block = now;
    return static_cast<std::size_t>(block + i - first + offset) % replicas.size();
  });
}

}  // namespace moesim::trt_llm
