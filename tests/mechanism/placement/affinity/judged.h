// SPDX-License-Identifier: Apache-2.0
// What placements by affinity are judged by: transitions, distinct GPUs of tokens, ExFlow's score.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "sim/mechanism/owners.h"
#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/mechanism/placement/affinity/exflow.h"

namespace moesim {

inline std::int64_t total(const PairMatrix& pairs) {
  std::int64_t sum = 0;
  for (int e = 0; e < pairs.experts(); ++e) {
    for (const std::int64_t count : pairs.row(ExpertId(e))) sum += count;
  }
  return sum;
}

/// Choices (e of a layer, f of the next) over all tokens, K x K per token: rows are of the earlier
/// layer.
inline PairMatrix transitions(const IdRows& layer, const IdRows& next, int experts) {
  PairMatrix pairs(experts);
  for (std::int64_t t = 0; t < layer.tokens(); ++t) {
    for (int a = 0; a < layer.top_k(); ++a) {
      for (int b = 0; b < next.top_k(); ++b) {
        ++pairs.at(ExpertId(layer.at(t, a)), ExpertId(next.at(t, b)));
      }
    }
  }
  return pairs;
}

/// Copies of tokens, each a mean over tokens.
struct TokenCopies {
  double gpus = 0;     // C_T of Occult: distinct GPUs of a token's experts, its own included
  double network = 0;  // the same without its own: rows that leave, per direction
};

/// Copies of the tokens of one layer; `source` holds the GPU of every token.
inline TokenCopies token_copies(const IdRows& ids, std::span<const GpuId> gpu_of,
                                std::span<const GpuId> source) {
  TokenCopies copies;
  for (std::int64_t t = 0; t < ids.tokens(); ++t) {
    std::set<GpuId> gpus;
    for (int k = 0; k < ids.top_k(); ++k) gpus.insert(gpu_of[ExpertId(ids.at(t, k)).index()]);
    copies.gpus += static_cast<double>(gpus.size());
    gpus.erase(source[static_cast<std::size_t>(t)]);
    copies.network += static_cast<double>(gpus.size());
  }
  copies.gpus /= static_cast<double>(ids.tokens());
  copies.network /= static_cast<double>(ids.tokens());
  return copies;
}

/// ExFlow's cost, a mean over transitions: 0 on one GPU, 1 inside a node, 2 between nodes.
inline double exflow_score(const std::vector<PairMatrix>& transitions,
                           const std::vector<SlotTable>& layers, int gpus_per_node) {
  LayerParts gpus, nodes;
  for (const SlotTable& layer : layers) {
    gpus.emplace_back();
    nodes.emplace_back();
    for (const GpuId gpu : owners_of(layer)) {
      gpus.back().push_back(gpu.value);
      nodes.back().push_back(gpu.value / gpus_per_node);
    }
  }
  std::int64_t all = 0;
  for (const PairMatrix& pairs : transitions) all += total(pairs);
  const std::int64_t cost =
      cut_transitions(transitions, gpus) + cut_transitions(transitions, nodes);
  return static_cast<double>(cost) / static_cast<double>(all);
}

}  // namespace moesim
