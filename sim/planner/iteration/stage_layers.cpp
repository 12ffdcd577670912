// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/stage_layers.h"

#include <algorithm>
#include <map>

#include "sim/planner/layer/phase_exchange.h"

namespace moesim {

int layer_number(const MoeModel& model, const StagePart& part) {
  if (part.kind == StagePartKind::layer) return part.number;
  return part.kind == StagePartKind::mtp ? model.layers + part.number : -1;
}

int ChunkLayers::index_of(int number) const {
  const auto at = std::ranges::find(works, number, &PlannedLayer::number);
  return at == works.end() ? -1 : static_cast<int>(at - works.begin());
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

StageLayers::StageLayers(const SystemSpec& system, const Topology& cluster, const MoeModel& model,
                         const RoutingTrace& trace, int stage, std::vector<std::vector<int>> chunks,
                         const PlannerOptions& options)
    : stage_(stage),
      cluster_(cluster),
      chunks_(std::move(chunks)),
      planner_(system, cluster, model, trace, options) {}

const LayerWork* StageLayers::last_of(int number) const {
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    for (const LayerWork& work : last(chunk).works) {
      if (work.number == number) return &work;
    }
  }
  return nullptr;
}

void StageLayers::plan(std::span<const NumberedBatch> microbatches,
                       std::vector<PlannedLayer>& layers, RoutingChange& change) {
  planned_.clear();
  planned_.resize(chunks_.size());
  for (std::size_t m = 0; m < microbatches.size(); ++m) {
    const auto& [batch, step, first_layer, last_layer] = microbatches[m];
    std::size_t layer = 0;
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const std::size_t first = layers.size();
      for (std::size_t i = 0; i < chunks_[chunk].size(); ++i, ++layer) {
        const int number = chunks_[chunk][i];
        if (number < first_layer || number >= last_layer) continue;
        // A layer that drafts is not in the parts before.
        const bool begins = std::ranges::none_of(microbatches.first(m), [&](const auto& before) {
          return number >= before.first && number < before.last;
        });
        PlannedLayer& planned =
            layers.emplace_back(planner_.work(*batch, step, layer, change, begins));
        planned.batch = batch;
        planned.stage = stage_;
        planned.microbatch = static_cast<int>(m);
        planned.chunk = static_cast<int>(chunk);
        planned.index = layer;
        if (!planner_.options().explicit_rows) continue;
        RoutingChange counted;
        planned.chosen = planner_.add_rows(planned, *batch, layer, counted);
      }
      auto made = std::make_unique<ChunkLayers>();
      made->works = std::span(layers).subspan(first);
      made->replayed = {made->works.begin(), made->works.end()};
      planned_[chunk].push_back(std::move(made));
    }
  }
  share_traffic();
}

namespace {

/// A layer and those of its chunks.
std::vector<ReplayedLayer*> with_chunks(ReplayedLayer& layer) {
  std::vector<ReplayedLayer*> list = {&layer};
  for (ReplayedLayer& chunk : layer.chunks()) list.push_back(&chunk);
  return list;
}

}  // namespace

/// Layers that move the same rows are looked at once, and priced once.
void StageLayers::share_traffic() {
  std::map<const void*, std::vector<ReplayedLayer*>> seen;  // by the rows of their first GPU
  KnownCollectives known;
  for (const auto& chunk : planned_) {
    for (const auto& microbatch : chunk) {
      for (ReplayedLayer& layer : microbatch->replayed) {
        for (ReplayedLayer* part : with_chunks(layer)) {
          const auto& rows = part->work().counts.on_wire();
          auto& twins = seen[rows.empty() ? nullptr : rows.front().block_of(0)];
          if (std::ranges::any_of(
                  twins, [&](const ReplayedLayer* twin) { return part->share_traffic(*twin); })) {
            continue;
          }
          // Explicit rows are those of one communicator.
          if (planner_.options().join_alike && part->work().rows.empty()) {
            part->join_communicators(!are_alike(*part, cluster_), known);
          }
          twins.push_back(part);
        }
      }
    }
  }
}

}  // namespace moesim
