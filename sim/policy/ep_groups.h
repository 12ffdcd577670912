// SPDX-License-Identifier: Apache-2.0
// The EP groups of a cluster: the one place where ranks of a group and GPUs of the cluster meet.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/plan/assignment.h"
#include "sim/policy/rank_space.h"
#include "sim/topology/topology.h"
#include "sim/trace/batches.h"

namespace moesim {

/// The ranks of one group in a batch, and the assignment among them, which no other group's slots
/// take part in.
class GroupPart {
 public:
  GroupPart(Batch batch, Assignment assignment)
      : batch_(std::move(batch)), assignment_(std::move(assignment)) {}
  const Batch& batch() const { return batch_; }
  const Assignment& assignment() const { return assignment_; }

 private:
  Batch batch_;
  Assignment assignment_;
};

/// Group g of G has the GPUs g x ep .. (g + 1) x ep - 1 of the cluster, which are its ranks
/// 0 .. ep - 1. Cheap to copy. The topology must outlive it.
class EpGroups {
 public:
  /// Throws Error unless `ep` divides the GPUs.
  EpGroups(const Topology& topology, int ep);

  int count() const { return static_cast<int>(spaces_->size()); }
  /// Ranks of one group.
  int size() const { return size_; }
  const RankSpace& ranks(int group) const { return (*spaces_)[static_cast<std::size_t>(group)]; }
  const std::vector<RankSpace>& spaces() const { return *spaces_; }
  /// The name of the cluster, for messages.
  const std::string& cluster() const { return topology_->name(); }

  /// The GPU of a group's rank.
  GpuId gpu(int group, GpuId rank) const { return GpuId(first(group) + rank.value); }
  int group_of(GpuId gpu) const { return gpu.value / size_; }
  GpuId rank_of(GpuId gpu) const { return GpuId(gpu.value % size_); }
  /// The GPU of a group's rank 0.
  std::int64_t first(int group) const { return std::int64_t{group} * size_; }

  GroupPart part(const Batch& batch, const Assignment& assignment, int group) const;
  /// Lists of ranks, group by group, as lists of GPUs.
  Communicators lifted(const std::vector<const Communicators*>& of_group) const;
  /// The traffic of one group, in every group at once.
  ByteMatrix in_every_group(const ByteMatrix& of_group) const;

  /// The time of the slowest of some exchanges over the cluster that start at once.
  Seconds slowest(const std::vector<ByteMatrix>& traffic) const;

 private:
  const Topology* topology_;
  int size_;
  std::shared_ptr<const std::vector<RankSpace>> spaces_;
};

}  // namespace moesim
