// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/pro_prophet.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"

namespace moesim {
namespace {

/// The q GPUs with the fewest choices for an expert, the owner left out: they get no copy, because
/// they would use it least.
std::vector<GpuId> least_interested(const LoadMatrix& loads, ExpertId expert, GpuId owner, int q) {
  std::vector<GpuId> gpus;
  for (const GpuId gpu : ids<GpuId>(loads.sources())) {
    if (gpu != owner) gpus.push_back(gpu);
  }
  std::stable_sort(gpus.begin(), gpus.end(),
                   [&](GpuId a, GpuId b) { return loads.at(a, expert) < loads.at(b, expert); });
  gpus.resize(q);
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

/// The expert with the most choices among the ones that are not copied yet; ties: lowest id.
std::optional<ExpertId> heaviest_left(const std::vector<ExpertId>& experts,
                                      const std::vector<std::int64_t>& totals,
                                      const std::vector<bool>& copied) {
  std::optional<ExpertId> best;
  for (const ExpertId e : experts) {
    if (copied[e.index()]) continue;
    const std::int64_t more = best ? totals[e.index()] - totals[best->index()] : 1;
    if (more > 0 || (more == 0 && e < *best)) best = e;
  }
  return best;
}

/// All copies that the greedy algorithm makes, in order: of the busiest GPU's experts, until loads
/// differ by less than `balance` times an expert's mean load, or nothing is left to copy.
std::vector<ProphetCopy> greedy(const ProphetOptions& options, const LoadMatrix& loads,
                                const SlotTable& table) {
  const std::vector<GpuId> owners = owners_of(table, loads);
  const std::vector<std::int64_t> totals = loads.per_expert();
  std::vector<bool> copied(totals.size());
  std::int64_t inputs = 0;
  for (const std::int64_t total : totals) inputs += total;
  const double even = options.balance * static_cast<double>(inputs) / loads.experts();
  std::vector<ProphetCopy> copies;
  while (true) {
    const std::vector<std::int64_t> computed = prophet_loads(loads, table, copies).computed;
    const auto [least, most] = std::ranges::minmax(computed);
    if (static_cast<double>(most - least) < even) return copies;
    const auto busiest =
        static_cast<std::size_t>(std::ranges::max_element(computed) - computed.begin());
    const auto expert = heaviest_left(table[busiest], totals, copied);
    if (!expert) return copies;
    copied[expert->index()] = true;
    copies.push_back(
        {*expert, least_interested(loads, *expert, owners[expert->index()], options.excluded)});
  }
}

}  // namespace

ProphetLoads prophet_loads(const LoadMatrix& loads, const SlotTable& table,
                           const std::vector<ProphetCopy>& copies) {
  const std::vector<GpuId> owners = owners_of(table, loads);
  std::vector<const ProphetCopy*> copy_of(owners.size());
  for (const ProphetCopy& copy : copies) copy_of[copy.expert.index()] = &copy;
  ProphetLoads result{std::vector<std::int64_t>(table.size()),
                      std::vector<std::int64_t>(table.size())};
  for (const GpuId source : ids<GpuId>(loads.sources())) {
    for (const ExpertId expert : ids<ExpertId>(loads.experts())) {
      const ProphetCopy* copy = copy_of[expert.index()];
      const bool local = copy != nullptr && !std::ranges::binary_search(copy->excluded, source);
      const GpuId at = local ? source : owners[expert.index()];
      result.computed[at.index()] += loads.at(source, expert);
      if (at != source) result.received[at.index()] += loads.at(source, expert);
    }
  }
  return result;
}

Seconds prophet_time(const ProphetModel& model, const ProphetLoads& loads, std::size_t copies,
                     int excluded) {
  const auto gpus = static_cast<double>(loads.computed.size());
  const Seconds exchange =
      model.input / model.bandwidth * static_cast<double>(std::ranges::max(loads.received));
  const Seconds experts(static_cast<double>(std::ranges::max(loads.computed)) / model.throughput);
  const double copied = static_cast<double>(copies) * (gpus - excluded) / gpus;
  Seconds out = model.parameters / model.bandwidth * copied;
  Seconds back = model.gradients / model.bandwidth * copied;
  if (model.overlapped) {
    out = std::max(Seconds(0), out - experts - model.dense_forward);
    back = std::max(Seconds(0), back - experts * 2.0 - model.dense_backward);
  }
  return exchange * 4.0 + experts * 3.0 + out + back;
}

ProphetPlan prophet_plan(const ProphetModel& model, const ProphetOptions& options,
                         const LoadMatrix& loads, const SlotTable& table) {
  if (options.excluded < 0 || options.excluded >= loads.sources()) {
    throw Error(fmt::format("a copy cannot skip {} of {} GPUs, its owner among the others",
                            options.excluded, loads.sources()));
  }
  const std::vector<ProphetCopy> all = greedy(options, loads, table);
  ProphetPlan plan{{}, {}, table, {}, {}};
  // More copies balance better and cost more transfers: the best number of them, in greedy order.
  for (std::size_t s = 0; s <= all.size(); ++s) {
    const std::vector<ProphetCopy> prefix(all.begin(),
                                          all.begin() + static_cast<std::ptrdiff_t>(s));
    const Seconds time =
        prophet_time(model, prophet_loads(loads, table, prefix), s, options.excluded);
    if (s > 0 && time >= plan.time) continue;
    plan.time = time;
    plan.copies = prefix;
  }
  const std::vector<GpuId> owners = owners_of(table);
  for (const ProphetCopy& copy : plan.copies) {
    const GpuId owner = owners[copy.expert.index()];
    for (const GpuId gpu : ids<GpuId>(loads.sources())) {
      if (gpu == owner || std::ranges::binary_search(copy.excluded, gpu)) continue;
      plan.table[gpu.index()].push_back(copy.expert);
      plan.broadcast.push_back({copy.expert, owner, gpu, model.parameters});
      plan.reduce.push_back({copy.expert, gpu, owner, model.gradients});
    }
  }
  return plan;
}

int excludable(const LoadMatrix& loads) {
  for (const ExpertId expert : ids<ExpertId>(loads.experts())) {
    bool unwanted = false;
    for (const GpuId source : ids<GpuId>(loads.sources())) {
      unwanted |= loads.at(source, expert) == 0;
    }
    if (!unwanted) return 0;
  }
  return 1;
}

}  // namespace moesim
