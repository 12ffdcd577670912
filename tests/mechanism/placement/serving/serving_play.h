// SPDX-License-Identifier: Apache-2.0
// Balancers of serving systems on small clusters, and what their decisions come to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/mechanism/placement/play.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

/// The placements of a serving system on a cluster of `shape`; 10 parameters of 2 bytes an expert.
class ServingPlay : public Play {
 public:
  ServingPlay(const std::string& placement, const Shape& shape, int experts, int top_k = 1,
              int layers = 1, bool backward = false)
      : Play(placement, topology_of(shape), model_of(experts, top_k), shape.ep, layers, backward) {}

  LayerDecision show_counts(const std::vector<int>& counts) { return show(ids_of(counts)); }

 private:
  static MoeModel model_of(int experts, int top_k) {
    MoeModel model;
    model.hidden = 5;
    model.expert_ffn = 1;
    model.expert_matrices = 2;
    model.experts = experts;
    model.top_k = top_k;
    return model;
  }
};

/// Choices that every GPU serves.
inline std::vector<std::int64_t> served(const LayerDecision& decision, const LoadMatrix& loads) {
  const Placement& placement = decision.assignment.placement();
  std::vector<std::int64_t> slots(static_cast<std::size_t>(placement.slots()));
  for (int s = 0; s < loads.sources(); ++s) {
    for (int e = 0; e < loads.experts(); ++e) {
      add_choices(decision.assignment, GpuId(s), ExpertId(e), loads.at(GpuId(s), ExpertId(e)),
                  slots);
    }
  }
  std::vector<std::int64_t> gpus(static_cast<std::size_t>(placement.gpus()));
  for (std::size_t s = 0; s < slots.size(); ++s) {
    gpus[placement.gpu_of(SlotId(static_cast<std::int64_t>(s))).index()] += slots[s];
  }
  return gpus;
}

inline std::int64_t bytes(const std::vector<ParamExchange>& list, int from, int to) {
  std::int64_t sum = 0;
  for (const ParamExchange& move : list) sum += move.traffic.at(GpuId(from), GpuId(to)).value;
  return sum;
}

inline constexpr Shape pair_of_gpus{1, 2, 2}, four_gpus{1, 4, 4};
inline constexpr std::int64_t expert = 20;  // bytes of the weights of one

}  // namespace moesim
