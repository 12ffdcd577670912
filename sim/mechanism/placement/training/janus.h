// SPDX-License-Identifier: Apache-2.0
// Janus (Liu et al., SIGCOMM 2023): per layer, tokens travel to the experts or the experts to the
// tokens, whichever moves fewer bytes.
#pragma once

#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/owners.h"

namespace moesim {

/// Where the bytes of one layer and step would go.
struct JanusBytes {
  Bytes across_nodes;
  Bytes off_gpu;  // those across nodes too
  bool operator==(const JanusBytes&) const = default;
};

/// What travels in a step: choices go out and results back in every pass; parameters go out and
/// gradients back once.
struct JanusSizes {
  Bytes row;         // one choice
  Bytes parameters;  // one expert
  Bytes gradients;   // one expert, 0 if only forward
  int passes = 2;    // forward and backward, or 1
};

/// One layer's decision, and how its experts travel when the data stays.
struct JanusLayer {
  bool data_centric = false;
  JanusBytes expert_centric_bytes;
  JanusBytes data_centric_bytes;
  /// Fetches, whether chosen or not: an expert goes once to each node with GPUs that have choices
  /// for it, then from there to the others of the node; in the owner's node from the owner. A
  /// transfer comes after the one that brings its expert to its sender.
  std::vector<ExpertTransfer> fetches;
  /// The same in reverse: gradients are summed in the node, then go to the owner.
  std::vector<ExpertTransfer> gradients;
};

/// The layer's decision for ranks in nodes of `gpus_per_node`: the fewer bytes across nodes, then
/// off GPUs; expert-centric on ties. The abstract says to compare traffic, but does not name the
/// links; which GPU of a node fetches is unstated: here expert e uses the (e mod n)-th of the
/// node's n that need it, so that fetches spread. Throws Error unless `table` has a slot per expert
/// and a GPU per source, in whole nodes.
JanusLayer janus_layer(const LoadMatrix& loads, const SlotTable& table, int gpus_per_node,
                       const JanusSizes& sizes);

}  // namespace moesim
