// SPDX-License-Identifier: Apache-2.0
// Bytes FSEP and FSDP+EP move and keep for the experts of one layer: exact integers.
#pragma once

#include <cstdint>

#include "sim/mechanism/placement/fsep/slot_grid.h"

namespace moesim::fsep {

/// One expert: 3 x hidden x width parameters for SwiGLU, and bytes per parameter on the wire.
struct ExpertSize {
  std::int64_t parameters = 0;
  Bytes per_parameter{2};  // bf16
  Bytes bytes() const { return per_parameter * parameters; }
};

/// One restore, or one gradient reduce, of a layer (LAER-MoE); independent of the layout. A
/// micro-batch makes two restores and one reduce per layer.
struct FsepVolume {
  Bytes chunk;            // of one send: an N-th of an expert
  int sends = 0;          // of a rank, to itself included: N*C
  Bytes restored;         // full experts of a rank
  Bytes per_rank;         // received, and sent, by a rank: C*Psi*b*(N-1)/N
  Bytes rank_inter_node;  // part of it from other nodes
  Bytes node_inter_node;  // by a node, per direction
};

/// Throws Error unless N divides the parameters of an expert (upstream adds no padding) and g
/// divides N.
FsepVolume fsep_volume(const ExpertSize& expert, const SlotGrid& grid);

/// What a rank keeps of a layer's E experts: an N-th of each, by default 16 bytes per parameter
/// (fp32 weight, gradient and two Adam moments). Throws Error as fsep_volume.
Bytes fsep_persistent(const ExpertSize& expert, int experts, const SlotGrid& grid,
                      Bytes per_parameter = Bytes(16));

/// The most a rank holds besides, over all layers, as upstream schedules: the current and the
/// prefetched layer, an unsharded and a delayed gradient, and the receive buffer, C experts each.
Bytes fsep_transient(const ExpertSize& expert, const SlotGrid& grid);

/// One parameter all-gather, or gradient reduce-scatter, of a layer under FSDP+EP: groups of E/C
/// ranks hold each expert once, and the copies of a group's place are sharded over the groups.
struct FsdpEpVolume {
  int copies = 0;         // R = N*C/E
  Bytes per_rank;         // received by a rank: C*Psi*b*(R-1)/R
  int rings = 0;          // of R ranks, that pass through a node
  Bytes node_inter_node;  // by a node, per direction, when each ring visits nodes one by one
};

/// Throws Error unless C divides E, E/C divides N, E/C divides g or g divides E/C, and R divides
/// the parameters of an expert.
FsdpEpVolume fsdp_ep_volume(const ExpertSize& expert, int experts, const SlotGrid& grid);

}  // namespace moesim::fsep
