// SPDX-License-Identifier: Apache-2.0
// LLEP, least-loaded expert parallelism (arXiv 2601.17111; SalesforceAIResearch/LeastLoadedEP):
// per layer and step, token-slots beyond a GPU's capacity go, with the expert's weights, to the
// least loaded GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/placement/moves.h"
#include "sim/plan/assignment.h"

namespace moesim::llep {

/// Token-slots first..last - 1 of an expert, computed by a GPU.
struct Chunk {
  GpuId gpu;
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const Chunk&) const = default;
};

/// One layer's plan.
struct Plan {
  std::int64_t capacity = 0;               // token-slots a GPU takes before others do
  std::vector<std::vector<Chunk>> chunks;  // [expert], in the order of token-slots; may be empty
  std::vector<WeightMove> transfers;       // one per chunk that is not the owner's, in plan order
  std::vector<std::int64_t> loads;         // [gpu]
};

/// Parameters: capacity over the mean load, and the least token-slots worth a transfer.
struct Parameters {
  double alpha = 1.1;
  std::int64_t least_chunk = 1024;
};

/// The GPU that owns an expert: e / (experts / gpus).
constexpr GpuId owner(ExpertId expert, int experts, int gpus) {
  return GpuId(expert.value / (experts / gpus));
}

/// The plan for exact counts per expert. Ties: lower expert, lower GPU. Throws Error unless gpus
/// divides the experts.
Plan plan(std::span<const std::int64_t> counts, int gpus, const Parameters& parameters);

/// Whether the plan is used: largest over mean native load reaches lambda.
bool applies(std::span<const std::int64_t> counts, int gpus, double lambda);

/// Slots during the step: every GPU's own experts, then those it received, ascending.
SlotTable table(const Plan& plan);

/// Shares [rank][expert] for Placement(experts, table(plan)): token-slots of an expert are numbered
/// by source rank, then in token order.
std::vector<std::vector<Shares>> shares(const Plan& plan, const LoadMatrix& loads);

}  // namespace moesim::llep
