// SPDX-License-Identifier: Apache-2.0
#include "tests/mechanism/placement/fsep/volume.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim::fsep {
namespace {

std::int64_t shard(const ExpertSize& expert, int ranks) {
  if (expert.parameters < 1 || expert.parameters % ranks != 0) {
    throw Error(fmt::format("an expert of {} parameters cannot be cut into {} equal shards",
                            expert.parameters, ranks),
                "the number of shards must divide the parameters of an expert");
  }
  return expert.parameters / ranks;
}

}  // namespace

FsepVolume fsep_volume(const ExpertSize& expert, const SlotGrid& grid) {
  grid.check(1);
  FsepVolume volume;
  volume.chunk = expert.per_parameter * shard(expert, grid.ranks);
  volume.sends = grid.slots();
  volume.restored = expert.bytes() * std::int64_t{grid.slots_per_rank};
  const Bytes from_each = volume.chunk * std::int64_t{grid.slots_per_rank};
  volume.per_rank = from_each * std::int64_t{grid.ranks - 1};
  volume.rank_inter_node = from_each * std::int64_t{grid.ranks - grid.ranks_per_node};
  volume.node_inter_node = volume.rank_inter_node * std::int64_t{grid.ranks_per_node};
  return volume;
}

Bytes fsep_persistent(const ExpertSize& expert, int experts, const SlotGrid& grid,
                      Bytes per_parameter) {
  grid.check(experts);
  return per_parameter * shard(expert, grid.ranks) * std::int64_t{experts};
}

Bytes fsep_transient(const ExpertSize& expert, const SlotGrid& grid) {
  constexpr std::int64_t layers = 2, gradients = 2, receive_buffers = 1;
  return fsep_volume(expert, grid).restored * (layers + gradients + receive_buffers);
}

FsdpEpVolume fsdp_ep_volume(const ExpertSize& expert, int experts, const SlotGrid& grid) {
  grid.check(experts);
  const int ep = experts / grid.slots_per_rank;
  const bool groups = experts % grid.slots_per_rank == 0 && grid.ranks % ep == 0;
  if (!groups || (grid.ranks_per_node % ep != 0 && ep % grid.ranks_per_node != 0)) {
    throw Error(fmt::format("{} experts on {} ranks of {} slots do not fit nodes of {} ranks",
                            experts, grid.ranks, grid.slots_per_rank, grid.ranks_per_node),
                "groups of experts / slots ranks must tile the nodes, or nodes the groups");
  }
  FsdpEpVolume volume;
  volume.copies = grid.ranks / ep;
  const Bytes from_each =
      expert.per_parameter * shard(expert, volume.copies) * std::int64_t{grid.slots_per_rank};
  volume.per_rank = from_each * std::int64_t{volume.copies - 1};
  volume.rings = std::min(ep, grid.ranks_per_node);
  if (grid.nodes() > 1) volume.node_inter_node = volume.per_rank * std::int64_t{volume.rings};
  return volume;
}

}  // namespace moesim::fsep
