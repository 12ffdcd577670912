// SPDX-License-Identifier: Apache-2.0
#include "sim/iteration/stage_layers.h"

#include <algorithm>
#include <map>

namespace moesim {

int layer_number(const MoeModel& model, const StagePart& part) {
  if (part.kind == StagePartKind::layer) return part.number;
  return part.kind == StagePartKind::mtp ? model.layers + part.number : -1;
}

int predicted_by(const LayerLayout& layers, int position) {
  int count = 0;
  for (int p = 0; p <= position; ++p) {
    for (const StagePart& part : layers.parts(p)) count += part.kind == StagePartKind::mtp ? 1 : 0;
  }
  return count;
}

TensorSharers tensor_sharers(const Grid& grid, int stage) {
  TensorSharers sharers;
  if (grid.size(ParallelAxis::etp) == 1) return sharers;
  std::map<int, int> number;  // of a group of the grid among those of the stage
  for (const GpuId gpu : grid.stage_by(ParallelAxis::ep, stage)) {
    number.try_emplace(grid.group_of(ParallelAxis::ep, gpu), static_cast<int>(number.size()));
  }
  for (const auto& group : grid.groups(ParallelAxis::etp)) {
    const GridPlace place = grid.place(group.front());
    if (place.pp != stage || place.ep != 0) continue;
    auto& list = sharers.emplace_back();
    for (const GpuId gpu : group) list.push_back(number.at(grid.group_of(ParallelAxis::ep, gpu)));
  }
  return sharers;
}

int recorded_layer(const TraceInfo& trace, const MoeModel& model, int number) {
  const auto same = std::ranges::find(trace.layers, number);
  if (same != trace.layers.end()) return static_cast<int>(same - trace.layers.begin());
  const auto before = std::ranges::lower_bound(model.moe_layers, number);
  const auto place = before - model.moe_layers.begin() + std::max(0, number - model.layers);
  return static_cast<int>(place % std::ssize(trace.layers));
}

PlannerOptions StageLayers::with_layers(const std::vector<std::vector<int>>& chunks,
                                        const MoeModel& model, const RoutingTrace& trace,
                                        PlannerOptions options) {
  for (const auto& numbers : chunks) {
    for (const int number : numbers) {
      options.numbers.push_back(number);
      options.layers.push_back(recorded_layer(trace.info(), model, number));
    }
  }
  return options;
}

StageLayers::StageLayers(const SystemSpec& system, const Topology& cluster, const MoeModel& model,
                         const RoutingTrace& trace, const Microbatches& microbatches,
                         std::vector<std::vector<int>> chunks, PlannerOptions options)
    : chunks_(std::move(chunks)),
      microbatches_(microbatches),
      planner_(system, cluster, model, trace,
               with_layers(chunks_, model, trace, std::move(options))) {}

const LayerWork* StageLayers::last_of(int number) {
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    for (const LayerWork& work : last(chunk).works) {
      if (work.number == number) return &work;
    }
  }
  return nullptr;
}

bool StageLayers::plan(int iteration, RoutingChange& change) {
  planned_.clear();
  bool replanned = false;
  for (int m = 0; m < microbatches_.distinct; ++m) {
    const Batch& batch = microbatches_.of(iteration, m);
    const auto step = static_cast<int>((std::int64_t{iteration} * microbatches_.distinct + m) %
                                       std::ssize(microbatches_.recorded));
    auto& chunks = planned_.emplace_back();
    std::size_t layer = 0;
    for (const auto& numbers : chunks_) {
      auto made = std::make_unique<ChunkLayers>();
      for (std::size_t i = 0; i < numbers.size(); ++i, ++layer) {
        made->works.push_back(planner_.work(batch, step, layer, change, m == 0));
        replanned |= made->works.back().decision.planned;
        if (!planner_.options().explicit_rows) continue;
        RoutingChange counted;
        made->chosen.push_back(planner_.add_rows(made->works.back(), batch, layer, counted));
      }
      made->replayed = {made->works.begin(), made->works.end()};
      chunks.push_back(std::move(made));
    }
  }
  return replanned;
}

}  // namespace moesim
