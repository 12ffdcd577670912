// SPDX-License-Identifier: Apache-2.0
// What the time of a training iteration consists of. Every part is defined in docs/metrics.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"
#include "sim/report/continued.h"
#include "sim/report/serving_figures.h"

namespace moesim {

/// Parts of the mean GPU's iteration; they add up to it. Every moment counts once: kernels of the
/// compute stream first, and of exchanges that run at once the first of the list.
enum class IterationPart {
  attention,  // kernels: projections, scores, output
  experts,    // products and activations of routed experts
  moe_other,  // gate, shared experts, and what moves rows about
  dense,      // norms, dense FFN, embedding, head, loss
  optimizer,
  tokens,     // exposed: exchanges of tokens move data
  tensor,     // of tensor-parallel groups
  context,    // of context-parallel groups
  weights,    // of expert parameters within EP groups, and of updated weights
  gradients,  // between replicas
  offload,    // activations come back from the memory of the host
  host,       // an op could run that the host has not issued, or the host itself works for the GPU
  waiting,    // in such an exchange that the slowest participant has not joined yet
  bubble,     // no kernel, and no exchange but those between pipeline stages
};
inline constexpr int iteration_part_count = static_cast<int>(IterationPart::bubble) + 1;
const char* name_of(IterationPart part);
/// The part that an op counts for while it works; `bubble` of transfers between pipeline stages.
IterationPart part_of(const Op& op);

struct IterationTimes {
  Seconds iteration;
  std::array<Seconds, iteration_part_count> parts{};
  Seconds slowest_compute;  // of the GPU that computes longest
  Seconds overlapped;       // time of the mean GPU in exchanges that compute hides
  Seconds busiest;          // of the GPU with the shortest bubble: all but that

  Seconds of(IterationPart part) const { return parts[static_cast<std::size_t>(part)]; }
  void move(IterationPart from, IterationPart to) {
    Seconds& moved = parts[static_cast<std::size_t>(from)];
    parts[static_cast<std::size_t>(to)] += moved;
    moved = {};
  }
  /// Those of one GPU, of a stretch of time that it has so many times more.
  void add(const IterationTimes& other, int times);
  bool operator==(const IterationTimes&) const = default;
};

/// Whether the hosts of some GPUs take time (HostModel); if not, none is behind its GPU.
bool hosts_take_time(const GpuModels& gpus);

/// [GPU] of each by itself: `slowest_compute` is its own. `hosts`: see above.
std::vector<IterationTimes> iteration_times_by_gpu(const Plan& plan, const Timeline& timeline,
                                                   bool hosts = false,
                                                   const Continued* continued = nullptr);
/// Times of the mean GPU; of those of `only`, if some stand for all (representatives.h).
IterationTimes iteration_times(const Plan& plan, const Timeline& timeline, bool hosts = false,
                               const std::vector<GpuId>& only = {},
                               const Continued* continued = nullptr);

/// Rows of the routed experts of the busiest GPU over those of the mean one, by GPUs that work on
/// the same layer: the mean over layers and microbatches.
double expert_load_max_over_mean(const Plan& plan, const Continued* continued = nullptr);

/// Of one step.
ActivatedExperts activated_experts(const Plan& plan);

}  // namespace moesim
