// SPDX-License-Identifier: Apache-2.0
// DeepSeek EPLB: pack, replicate, rebalance.
#include "sim/mechanism/placement/serving/eplb.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "sim/base/error.h"

namespace moesim::eplb {
namespace {

using Item = std::pair<double, int>;  // a weight and whose it is

/// Throws Error unless `part` divides `whole`.
void require_divides(int part, const char* part_name, int whole, const char* whole_name) {
  if (part > 0 && whole > 0 && whole % part == 0) return;
  throw Error(
      fmt::format("EPLB cannot spread {} {} over {} {}", whole, whole_name, part, part_name),
      fmt::format("the {} must divide the {}", part_name, whole_name));
}

/// Heaviest first, then by index.
struct HeavierFirst {
  bool operator()(const Item& a, const Item& b) const {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  }
};

void check(int experts, const Shape& shape) {
  require_divides(shape.groups, "groups", experts, "experts");
  require_divides(shape.nodes, "nodes", shape.gpus, "GPUs");
  require_divides(shape.gpus, "GPUs", shape.slots, "slots");
}

/// The experts of every node, in the order of the node's groups: [node * experts per node + i].
std::vector<int> experts_by_node(std::span<const double> loads, const Shape& shape) {
  const int group_size = static_cast<int>(loads.size()) / shape.groups;
  std::vector<double> sums(shape.groups);
  for (std::size_t e = 0; e < loads.size(); ++e) {
    sums[e / static_cast<std::size_t>(group_size)] += loads[e];
  }
  const Packing groups = pack(sums, shape.nodes);
  std::vector<int> experts(loads.size());
  for (int group = 0; group < shape.groups; ++group) {
    const auto g = static_cast<std::size_t>(group);
    const int first = (groups.pack[g] * (shape.groups / shape.nodes) + groups.rank[g]) * group_size;
    std::iota(experts.begin() + first, experts.begin() + first + group_size, group * group_size);
  }
  return experts;
}

}  // namespace

Packing pack(std::span<const double> weights, int packs) {
  if (weights.empty() || static_cast<int>(weights.size()) != packs) {
    return pack_sorted(weights, packs);
  }
  Packing result{std::vector<int>(weights.size()), std::vector<int>(weights.size())};
  std::iota(result.pack.begin(), result.pack.end(), 0);
  return result;
}

Packing pack_sorted(std::span<const double> weights, int packs) {
  const auto items = static_cast<int>(weights.size());
  require_divides(packs, "packs", items, "items");
  std::vector<Item> order;
  order.reserve(weights.size());
  for (int i = 0; i < items; ++i) order.emplace_back(weights[i], i);
  std::sort(order.begin(), order.end(), HeavierFirst());

  Packing result{std::vector<int>(weights.size()), std::vector<int>(weights.size())};
  std::priority_queue<Item, std::vector<Item>, std::greater<>> lightest;  // packs with room
  for (int p = 0; p < packs; ++p) lightest.emplace(0.0, p);
  std::vector<int> filled(packs);
  for (const auto& [weight, item] : order) {
    const auto [load, p] = lightest.top();
    lightest.pop();
    result.pack[item] = p;
    result.rank[item] = filled[p]++;
    if (filled[p] < items / packs) lightest.emplace(load + weight, p);
  }
  return result;
}

Replication replicate(std::span<const double> loads, int slots) {
  const auto experts = static_cast<int>(loads.size());
  if (experts < 1 || slots < experts) {
    throw Error(fmt::format("EPLB cannot place {} experts in {} slots", experts, slots),
                "every expert needs a slot");
  }
  Replication result;
  result.expert_in.resize(loads.size());
  std::iota(result.expert_in.begin(), result.expert_in.end(), 0);
  result.rank.assign(loads.size(), 0);
  result.copies.assign(loads.size(), 1);
  if (slots == experts) return result;

  const auto lighter = [](const Item& a, const Item& b) { return HeavierFirst()(b, a); };
  std::vector<Item> all;
  for (int e = 0; e < experts; ++e) all.emplace_back(loads[e], e);
  std::priority_queue heaviest(lighter, std::move(all));
  for (int slot = experts; slot < slots; ++slot) {
    const int expert = heaviest.top().second;
    const auto e = static_cast<std::size_t>(expert);
    heaviest.pop();
    result.expert_in.push_back(expert);
    result.rank.push_back(result.copies[e]++);
    heaviest.emplace(loads[e] / result.copies[e], expert);
  }
  return result;
}

Layout rebalance(std::span<const double> loads, const Shape& wanted) {
  Shape shape = wanted;
  const bool hierarchical = shape.nodes < 1 || shape.groups % shape.nodes == 0;
  if (!hierarchical) shape.groups = shape.nodes = 1;
  check(static_cast<int>(loads.size()), shape);
  const std::size_t node_experts = loads.size() / static_cast<std::size_t>(shape.nodes);
  const int node_slots = shape.slots / shape.nodes;
  const int gpu_slots = shape.slots / shape.gpus;
  const std::vector<int> experts = experts_by_node(loads, shape);

  Layout layout{std::vector<ExpertId>(shape.slots), std::vector<std::vector<SlotId>>(loads.size()),
                shape.gpus};
  std::vector<double> node_loads(node_experts);
  std::vector<double> weights(node_slots);
  for (int node = 0; node < shape.nodes; ++node) {
    const std::span here = std::span(experts).subspan(node * node_experts, node_experts);
    for (std::size_t i = 0; i < node_experts; ++i) {
      node_loads[i] = loads[here[i]];
    }
    const Replication copies = replicate(node_loads, node_slots);
    for (std::size_t s = 0; s < weights.size(); ++s) {
      const auto i = static_cast<std::size_t>(copies.expert_in[s]);
      weights[s] = node_loads[i] / copies.copies[i];
    }
    const Packing packing = pack(weights, shape.gpus / shape.nodes);
    for (std::size_t s = 0; s < weights.size(); ++s) {  // ascending replica ranks of each expert
      const int expert = here[copies.expert_in[s]];
      const SlotId slot(node * node_slots + packing.pack[s] * gpu_slots + packing.rank[s]);
      layout.expert_in[slot.index()] = ExpertId(expert);
      layout.copy_of[expert].push_back(slot);
    }
  }
  return layout;
}

SlotTable Layout::table() const {
  SlotTable table(gpus);
  const std::size_t per_gpu = expert_in.size() / table.size();
  for (std::size_t s = 0; s < expert_in.size(); ++s) table[s / per_gpu].push_back(expert_in[s]);
  return table;
}

std::vector<double> loads_of(const LoadMatrix& loads) {
  const std::vector<std::int64_t> sums = loads.per_expert();
  return {sums.begin(), sums.end()};
}

}  // namespace moesim::eplb
