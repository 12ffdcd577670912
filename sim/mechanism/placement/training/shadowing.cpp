// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/shadowing.h"

#include <algorithm>

#include "sim/base/id_vector.h"

namespace moesim {
namespace {

Seconds times(std::int64_t count, Seconds each) { return each * static_cast<double>(count); }

std::vector<ExpertId> paper_rule(const ShadowModel& model, const LoadMatrix& loads,
                                 const SlotTable& table, std::span<const ExpertId> order) {
  std::vector<ExpertId> shadows;
  Seconds best = unshadowed_time(model, std::ranges::max(shadowed_loads(loads, table, {})));
  for (const ExpertId e : order) {
    shadows.push_back(e);
    const std::int64_t largest = std::ranges::max(shadowed_loads(loads, table, shadows));
    const Seconds time = shadowed_time(model, largest, static_cast<int>(shadows.size()));
    if (time >= best) {
      shadows.pop_back();
      break;
    }
    best = time;
  }
  return shadows;
}

std::vector<ExpertId> fastmoe_rule(const ShadowModel& model, std::span<const std::int64_t> totals,
                                   std::span<const ExpertId> order) {
  const Seconds each = model.compute() * 3.0 + model.feature() * 4.0;
  const auto time = [&](std::size_t shadows) {
    return times(totals[order[shadows].index()], each) + times(shadows, model.parameters());
  };
  std::size_t shadows = 0;
  while (shadows + 1 < order.size() && time(shadows + 1) < time(shadows)) ++shadows;
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shadows)};
}

std::vector<ExpertId> smart_moe_ae_rule(const ShadowModel& model, const LoadMatrix& loads,
                                        std::span<const std::int64_t> totals,
                                        std::span<const ExpertId> order,
                                        std::span<const GpuId> owners) {
  const auto time = [&](std::size_t shadows) {
    const ExpertId busiest = order[shadows];
    const GpuId owner = owners[busiest.index()];
    const std::int64_t total = totals[busiest.index()];
    std::int64_t computed = total;
    for (std::size_t i = 0; i < shadows; ++i) computed += loads.at(owner, order[i]);
    return times(computed, model.compute() * 3.0) +
           times(total - loads.at(owner, busiest), model.feature() * 4.0) +
           times(shadows, model.parameters() * 8.0);
  };
  const Seconds without = time(0);
  Seconds best = without;
  std::size_t kept = 0;
  for (std::size_t shadows = 1; shadows < order.size() && time(shadows) < without; ++shadows) {
    if (time(shadows) >= best) continue;
    best = time(shadows);
    kept = shadows;
  }
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept)};
}

}  // namespace

Seconds ShadowModel::compute() const { return Flops(4 * alpha * hidden * hidden) / throughput; }
Seconds ShadowModel::feature() const { return Seconds(hidden * element_bytes / bandwidth.value); }
Seconds ShadowModel::parameters() const {
  return Seconds(2 * alpha * hidden * hidden * element_bytes / bandwidth.value);
}

Seconds unshadowed_time(const ShadowModel& model, std::int64_t largest_load) {
  return times(largest_load, model.compute() * 3.0 + model.feature() * 4.0);
}

Seconds shadowed_time(const ShadowModel& model, std::int64_t largest_load, int shadows) {
  return times(largest_load, model.compute() * 3.0) + times(shadows, model.parameters() * 2.0);
}

std::vector<ExpertId> choose_shadows(ShadowRule rule, const ShadowModel& model,
                                     const LoadMatrix& loads, const SlotTable& table) {
  const std::vector<GpuId> owners = owners_of(table, loads);
  const std::vector<std::int64_t> totals = loads.per_expert();
  const std::vector<ExpertId> order = heaviest_first(totals);
  switch (rule) {
    case ShadowRule::paper:
      return paper_rule(model, loads, table, order);
    case ShadowRule::fastmoe:
      return fastmoe_rule(model, totals, order);
    case ShadowRule::smart_moe_ae:
      return smart_moe_ae_rule(model, loads, totals, order, owners);
  }
  return {};
}

std::vector<std::int64_t> shadowed_loads(const LoadMatrix& loads, const SlotTable& table,
                                         std::span<const ExpertId> shadows) {
  std::vector<std::int64_t> totals = loads.per_expert();
  for (const ExpertId e : shadows) totals[e.index()] = 0;
  std::vector<std::int64_t> sums = gpu_loads(table, totals);
  for (const GpuId gpu : ids_of<GpuId>(sums)) {
    for (const ExpertId e : shadows) sums[gpu.index()] += loads.at(gpu, e);
  }
  return sums;
}

Shadowing shadow(const SlotTable& table, std::span<const ExpertId> shadows, Bytes parameters,
                 Bytes gradients) {
  const std::vector<GpuId> owners = owners_of(table);
  Shadowing result{table, {}, {}};
  for (const ExpertId e : shadows) {
    const GpuId owner = owners[e.index()];
    for (const GpuId gpu : ids_of<GpuId>(table)) {
      if (gpu == owner) continue;
      result.table[gpu.index()].push_back(e);
      result.broadcast.push_back({e, owner, gpu, parameters});
      result.reduce.push_back({e, gpu, owner, gradients});
    }
  }
  return result;
}

}  // namespace moesim
