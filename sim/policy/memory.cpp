// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"
#include "sim/mechanism/unsuitable.h"
#include "sim/policy/phase_exchange.h"

namespace moesim {
namespace {

/// Bytes of activations that one layer keeps on one GPU for its backward pass: the rank's own
/// tokens, the rows that arrive, input and output of the experts for every row, and what is between
/// their matrices.
Bytes activations_of(const LayerWork& work, const MoeModel& model, GpuId gpu,
                     std::int64_t arrived) {
  const Placement& placement = work.assignment().placement();
  const auto first = work.counts.computed().begin() + placement.first_slot(gpu).value;
  std::int64_t rows = 0;
  for (int slot = 0; slot < placement.slots_on(gpu); ++slot) rows += first[slot];
  const std::int64_t inner = std::int64_t{model.expert_ffn} * model.expert_matrices;
  const std::int64_t elements =
      model.hidden * (work.tokens_per_rank[gpu.index()] + arrived + 2 * rows) + inner * rows;
  return Bytes(elements * size_of(model.activations));
}

/// [gpu] rows that arrive in last phases. Rows of earlier phases are passed on and not kept.
std::vector<std::int64_t> arrived(const LayerWork& work) {
  const std::size_t gpus = work.counts.gpus();
  const std::vector<bool> continued = continued_phases(work.dispatch->shape());
  std::vector<std::int64_t> rows(gpus);
  for (std::size_t p = 0; p < continued.size(); ++p) {
    if (continued[p]) continue;
    const RowTable& counts = work.counts.on_wire()[p];
    for (std::size_t from = 0; from < gpus; ++from) {
      counts.for_each(from, [&](std::size_t to, std::uint32_t count) { rows[to] += count; });
    }
  }
  return rows;
}

}  // namespace

std::vector<GpuMemory> memory_of(const std::vector<LayerWork>& layers, const MoeModel& model,
                                 const TrainingState& state, bool backward) {
  std::vector<GpuMemory> result;
  std::vector<Bytes> gathered_before;  // [gpu] by the layer before, which a prefetch overlaps
  for (const LayerWork& layer : layers) {
    const Placement& placement = layer.assignment().placement();
    const auto experts = layer.decision.memory.empty() ? whole_experts(placement, model, state)
                                                       : layer.decision.memory;
    const auto rows = arrived(layer);
    result.resize(experts.size());
    gathered_before.resize(experts.size());
    for (std::size_t g = 0; g < experts.size(); ++g) {
      GpuMemory& gpu = result[g];
      gpu.weights += experts[g].weights;
      gpu.gradients += experts[g].gradients;
      gpu.optimizer += experts[g].optimizer;
      gpu.gathered = std::max(gpu.gathered, gathered_before[g] + experts[g].gathered);
      gathered_before[g] = experts[g].gathered;
      const Bytes active =
          activations_of(layer, model, GpuId(static_cast<std::int64_t>(g)), rows[g]);
      gpu.activations = backward ? gpu.activations + active : std::max(gpu.activations, active);
    }
  }
  return result;
}

std::vector<GpuMemory> for_layers(std::vector<GpuMemory> memory, int layers, int replayed,
                                  bool backward) {
  // Divided before it is multiplied: bytes x layers need not fit into 64 bits.
  const auto scaled = [&](Bytes b) {
    return Bytes(b.value / replayed * layers + b.value % replayed * layers / replayed);
  };
  for (GpuMemory& gpu : memory) {
    gpu.weights = scaled(gpu.weights);
    gpu.gradients = scaled(gpu.gradients);
    gpu.optimizer = scaled(gpu.optimizer);
    if (backward) gpu.activations = scaled(gpu.activations);
  }
  return memory;
}

void check_memory(const std::vector<GpuMemory>& memory, const GpuModels& gpus,
                  const std::string& policy, const std::string& layers) {
  std::size_t worst = memory.size();
  Bytes excess(0);
  for (std::size_t g = 0; g < memory.size(); ++g) {
    const Bytes over = memory[g].total() + gpus[g]->memory * -1;
    if (over > excess) excess = over, worst = g;
  }
  if (worst == memory.size()) return;
  const GpuMemory& m = memory[worst];
  throw Unsuitable(
      fmt::format(
          "policy '{}' needs {}{} on GPU {}, which has {} for tensors: {} too much ({} weights, {} "
          "gradients, {} optimizer, {} gathered, {} activations)",
          policy, to_string(m.total()), layers.empty() ? "" : " for " + layers, worst,
          to_string(gpus[worst]->memory), to_string(excess), to_string(m.weights),
          to_string(m.gradients), to_string(m.optimizer), to_string(m.gathered),
          to_string(m.activations)),
      "fewer slots or tokens per rank, more GPUs, other gradient_bytes or optimizer_bytes; or "
      "memory: ignore");
}

}  // namespace moesim
