// SPDX-License-Identifier: Apache-2.0
// The order in which NCCL serves the peers of a grouped send/receive, and who may send when.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/base/group_traffic.h"
#include "sim/base/types.h"

namespace moesim {

/// How many peers NCCL serves at once (NCCL_MAX_DEV_WORK_P2P_PER_BATCH); it never mixes peers of
/// one such batch with those of the next.
inline constexpr int nccl_peers = 8;

/// By how many groups the receiver is ahead, in NCCL's order: every number below `groups` once
/// (ncclP2pSchedule, src/init.cc of NVIDIA/nccl: triangular steps modulo the next power of two).
std::vector<int> p2p_group_deltas(int groups);

/// ncclP2pSchedule: in every round each rank sends to one rank and receives from one; over all
/// rounds it sends to every rank, itself included, and receives from every rank exactly once.
class P2pSchedule {
 public:
  /// `nodes[r]` is the node of rank r. Groups have 8 ranks, or the largest common divisor of 8 and
  /// every node's number of ranks; a single node is one group.
  explicit P2pSchedule(const std::vector<int>& nodes);

  int ranks() const { return static_cast<int>(place_.size()); }
  int rounds() const { return ranks(); }
  /// Whom `rank` sends to in a round; this rank receives from it in the same round.
  int receiver(int rank, int round) const;

 private:
  struct Place {
    int group, local;
  };

  std::vector<std::vector<int>> groups_;
  std::vector<Place> place_;  // per rank
  std::vector<int> deltas_;
};

/// Which pairs of an exchange may move bytes: those whose both ends have joined it, all at once or,
/// when a GPU serves `peers` rounds of the schedule at once, the next ones only when its own sends
/// and receives in these have ended.
class PeerOrder {
 public:
  using Pair = std::pair<GpuId, GpuId>;  // from, to

  /// `nodes[i]` is the node of member i. Pairs without bytes take no part. 0 peers: all.
  PeerOrder(const GroupTraffic& traffic, const std::vector<int>& nodes, int peers);

  /// A GPU has joined: the pairs that may begin now.
  std::vector<Pair> join(GpuId gpu);
  /// A pair has ended: pairs that may begin now.
  std::vector<Pair> end(const Pair& pair);
  /// It has joined, and all that it sends and receives has ended.
  bool done(GpuId gpu) const;

 private:
  /// What a GPU has to do, batch by batch.
  struct Gpu {
    std::map<int, std::vector<Pair>> batches;  // those not yet ended
    std::size_t left = 0;                      // pairs of the first batch that have not ended
    int batch = 0;                             // the first one's number, if some are left
    bool joined = false;
  };
  Gpu& at(GpuId gpu) { return gpus_[gpu.index() - first_.index()]; }
  const Gpu& at(GpuId gpu) const { return gpus_[gpu.index() - first_.index()]; }
  void enter_batch(GpuId gpu, std::vector<Pair>& starting);
  bool serves(GpuId gpu, int batch) const;

  GpuId first_;            // of the members
  std::vector<Gpu> gpus_;  // from the first member to the last
};

}  // namespace moesim
