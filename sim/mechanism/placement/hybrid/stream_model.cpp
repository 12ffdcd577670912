// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/stream_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {
namespace {

void check(const StreamLayer& layer) {
  if (layer.compression < 1) {
    throw Error(fmt::format("a compression ratio of {} is below 1", layer.compression));
  }
}

void add_combinations(const StreamLayer& layer, const std::vector<StreamLevel>& levels,
                      std::vector<int>& domains, std::vector<DomainCost>& costs) {
  if (domains.size() == levels.size()) {
    costs.push_back(domain_cost(layer, levels, domains));
    return;
  }
  const int workers = levels[domains.size()].workers;
  for (int size = 1; size <= workers; ++size) {
    if (workers % size != 0) continue;
    domains.push_back(size);
    add_combinations(layer, levels, domains, costs);
    domains.pop_back();
  }
}

}  // namespace

DomainCost domain_cost(const StreamLayer& layer, const std::vector<StreamLevel>& levels,
                       const std::vector<int>& domains) {
  check(layer);
  if (levels.empty() || domains.size() != levels.size()) {
    throw Error(fmt::format("{} domain sizes for {} levels", domains.size(), levels.size()));
  }
  DomainCost cost{.domains = domains, .all_gather = {}, .all_to_all = {}, .latency = {}};
  const Bytes gradients = layer.backward ? layer.backward->gradients : Bytes(0);
  Seconds gather, reduce, exchange;
  Seconds forward_links, backward_links;  // of the level that carries most
  double held = 1;                        // GPUs whose experts a GPU holds after the levels so far
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const auto [workers, bandwidth, latency] = levels[l];
    if (workers < 1 || domains[l] < 1 || workers % domains[l] != 0) {
      throw Error(
          fmt::format("level {}: domains of {} do not divide {} workers", l, domains[l], workers));
    }
    cost.all_gather.push_back((domains[l] - 1) * held * layer.gathered());
    cost.all_to_all.push_back(static_cast<double>(layer.tokens.value) * (workers - domains[l]) /
                              workers);
    const Seconds experts(cost.all_gather[l] / bandwidth.value);
    const Seconds tokens(cost.all_to_all[l] / bandwidth.value);
    const Seconds sums = (domains[l] - 1) * held * (gradients / bandwidth);
    gather += experts, reduce += sums, exchange += tokens;
    forward_links = std::max(forward_links, experts + 2 * tokens);
    backward_links = std::max(backward_links, sums + 2 * tokens);
    if (domains[l] > 1) gather += latency, reduce += latency;
    if (domains[l] < workers) exchange += latency;
    held *= domains[l];
  }
  if (held > 1) gather += layer.encode + (held - 1) * layer.decode;
  const auto of_pass = [&](Seconds dense, Seconds compute, Seconds parameters, Seconds links) {
    const Seconds path = compute + 2 * exchange;
    return std::max({dense + path, parameters + path * (1.0 / layer.layers), links});
  };
  cost.latency = of_pass(layer.pre_expert, layer.compute, gather, forward_links);
  if (layer.backward) {
    if (held > 1) reduce += layer.backward->shared, backward_links += layer.backward->shared;
    if (layer.backward->regathers) reduce += gather, backward_links += gather;
    cost.latency += of_pass(2 * layer.pre_expert, 2 * layer.compute, reduce, backward_links);
  }
  cost.gathered_memory = (held - 1) * static_cast<double>(layer.experts.value);
  return cost;
}

std::vector<DomainCost> domain_costs(const StreamLayer& layer,
                                     const std::vector<StreamLevel>& levels) {
  std::vector<DomainCost> costs;
  std::vector<int> domains;
  add_combinations(layer, levels, domains, costs);
  return costs;
}

DomainCost best_domains(const StreamLayer& layer, const std::vector<StreamLevel>& levels) {
  const auto costs = domain_costs(layer, levels);
  if (costs.empty()) throw Error("a level needs a worker or more");
  return *std::min_element(
      costs.begin(), costs.end(),
      [](const DomainCost& a, const DomainCost& b) { return a.latency < b.latency; });
}

}  // namespace moesim
