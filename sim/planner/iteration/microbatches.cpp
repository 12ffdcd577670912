// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/microbatches.h"

#include <algorithm>

#include "sim/planner/iteration/serving_batches.h"

namespace moesim {
namespace {

/// From one rank per replica to the GPUs of a stage.
Batch spread(const Batch& of_replicas, const Grid& grid) {
  Batch batch{of_replicas.step, {}};
  const int tp = grid.size(ParallelAxis::tp), parts = grid.size(ParallelAxis::tp_cp);
  for (const GpuId gpu : grid.stage_by(ParallelAxis::ep, 0)) {
    const GridPlace place = grid.place(gpu);
    const auto& runs = of_replicas.ranks[static_cast<std::size_t>(place.dp)];
    batch.ranks.push_back(part_of(runs, place.cp * tp + place.tp, parts));
  }
  return batch;
}

}  // namespace

Microbatches make_microbatches(const RoutingTrace& trace, const IterationShape& shape,
                               const IterationSpec& spec) {
  if (spec.serving) return make_serving_batches(trace, shape, *spec.serving);
  const Grid& grid = shape.grid;
  const int replicas = grid.size(ParallelAxis::dp);
  const std::int64_t tokens = std::int64_t{spec.micro_batch} * spec.sequence;
  Microbatches result;
  result.distinct = spec.distinct_microbatches > 0
                        ? std::min(spec.distinct_microbatches, shape.microbatches)
                        : shape.microbatches;
  result.per_iteration = result.distinct;
  const std::int64_t largest = [&] {  // whole sequences do not fill all replicas alike
    std::int64_t most = 0;
    for (int s = 0; s < trace.step_count(); ++s) most = std::max(most, trace.step(s).tokens());
    return std::max<std::int64_t>(most, 1);
  }();
  auto repeat = static_cast<int>((tokens * replicas + largest - 1) / largest);
  std::vector<Batch> batches;
  while (batches.empty()) {
    try {
      batches = make_batches(trace, {replicas, tokens, repeat}).batches;
    } catch (const Error&) {
      constexpr int most = 1 << 20;
      if (repeat > most) throw;
      ++repeat;
    }
  }
  result.repeat = repeat;
  for (const Batch& batch : batches) result.recorded.push_back(spread(batch, grid));
  return result;
}

}  // namespace moesim
