// SPDX-License-Identifier: Apache-2.0
// ExFlow (arXiv 2401.08383): experts that follow each other over the layers share a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/plan/placement.h"

namespace moesim {

/// The part (node or GPU) of every expert of every layer: [layer][expert].
using LayerParts = std::vector<std::vector<int>>;

/// Transitions whose two experts are in different parts; `transitions` has one matrix fewer than
/// there are layers.
std::int64_t cut_transitions(const std::vector<PairMatrix>& transitions, const LayerParts& parts);

struct SwapSearch {
  int kicks = 64;  // shuffled layers from which the search continues
  std::uint64_t seed = 1;
};

/// Splits the experts of every layer into equal parts with few cut transitions. The authors solve
/// an integer program; ours starts contiguous and swaps two experts of a layer, or two parts in all
/// layers from one on, while that helps; then shuffles single layers and keeps what got no worse.
/// Throws Error unless parts divides the experts.
LayerParts exflow_parts(const std::vector<PairMatrix>& transitions, int experts, int parts,
                        const SwapSearch& search = {});

/// Two stages, as the authors': nodes first, then the GPUs of each node. One table per layer, slots
/// ascending by expert.
std::vector<SlotTable> place_exflow(const std::vector<PairMatrix>& transitions, int experts,
                                    int nodes, int gpus_per_node, const SwapSearch& search = {});

}  // namespace moesim
