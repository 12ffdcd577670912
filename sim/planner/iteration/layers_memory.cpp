// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/layers_memory.h"

#include <algorithm>
#include <functional>

#include "sim/planner/layer/phase_exchange.h"

namespace moesim {
namespace {

/// Bytes of activations that one layer keeps on one GPU for its backward pass: the rank's own
/// tokens, the rows that arrive, input and output of the experts for every row, and what is between
/// their matrices. A fused kernel stores rows where experts read them and results where tokens came
/// from, and without a backward pass only the last matrix's input.
Bytes activations_of(const LayerWork& work, const MoeModel& model, GpuId gpu,
                     const RowTable::Sums& moved, bool backward) {
  const Placement& placement = work.assignment().placement();
  const auto first = work.counts.computed().begin() + placement.first_slot(gpu).value;
  std::int64_t rows = 0;
  for (int slot = 0; slot < placement.slots_on(gpu); ++slot) rows += first[slot];
  const bool fused = !work.chunks.empty() && work.chunks.front().wave;
  const std::int64_t inner =
      std::int64_t{model.expert_ffn} * (fused && !backward ? 1 : model.expert_matrices);
  const std::int64_t stored = fused ? moved.sent[gpu.index()] + rows  //
                                    : moved.arrived[gpu.index()] + 2 * rows;
  const std::int64_t elements = model.hidden * work.tokens_per_rank[gpu.index()] +
                                model.routed_width() * stored + inner * rows;
  return Bytes(elements * size_of(model.activations));
}

/// Rows of last phases. Those of earlier phases are passed on and not kept.
RowTable::Sums moved_rows(const LayerWork& work) {
  const std::size_t gpus = work.counts.gpus();
  const std::vector<bool> continued = continued_phases(work.dispatch->shape());
  RowTable::Sums rows{std::vector<std::int64_t>(gpus), std::vector<std::int64_t>(gpus)};
  for (std::size_t p = 0; p < continued.size(); ++p) {
    if (continued[p]) continue;
    const RowTable::Sums phase = work.counts.on_wire()[p].sums();
    std::ranges::transform(rows.sent, phase.sent, rows.sent.begin(), std::plus());
    std::ranges::transform(rows.arrived, phase.arrived, rows.arrived.begin(), std::plus());
  }
  return rows;
}

}  // namespace

MemoryPeaks memory_of(const std::vector<PlannedLayer>& layers, const MoeModel& model,
                      const TrainingState& state, bool backward) {
  MemoryPeaks result;
  std::vector<Bytes> gathered_before;  // [gpu] by the layer before, which a prefetch overlaps
  for (const PlannedLayer& layer : layers) {
    const auto experts = memory_of_experts(layer, model, state);
    const auto rows = moved_rows(layer);
    result.resize(experts.size());
    gathered_before.resize(experts.size());
    for (std::size_t g = 0; g < experts.size(); ++g) {
      MemoryUse& gpu = result[g].use;
      gpu.of(MemoryPart::weights) += experts[g].weights;
      gpu.of(MemoryPart::gradients) += experts[g].gradients;
      gpu.of(MemoryPart::optimizer) += experts[g].optimizer;
      Bytes& gathered = gpu.of(MemoryPart::gathered);
      gathered = std::max(gathered, gathered_before[g] + experts[g].gathered);
      gathered_before[g] = experts[g].gathered;
      const Bytes active =
          activations_of(layer, model, GpuId(static_cast<std::int64_t>(g)), rows, backward);
      Bytes& activations = gpu.of(MemoryPart::activations);
      activations = backward ? activations + active : std::max(activations, active);
    }
  }
  return result;
}

MemoryPeaks for_layers(MemoryPeaks memory, int layers, int replayed, bool backward) {
  // Divided before it is multiplied: bytes x layers need not fit into 64 bits.
  const auto scale = [&](Bytes& b) {
    b = Bytes(b.value / replayed * layers + b.value % replayed * layers / replayed);
  };
  for (MemoryPeak& gpu : memory) {
    scale(gpu.use.of(MemoryPart::weights));
    scale(gpu.use.of(MemoryPart::gradients));
    scale(gpu.use.of(MemoryPart::optimizer));
    if (backward) scale(gpu.use.of(MemoryPart::activations));
  }
  return memory;
}

}  // namespace moesim
