// SPDX-License-Identifier: Apache-2.0
// The EP groups of a cluster: the one place where ranks of a group and GPUs of the cluster meet.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/group_traffic.h"
#include "sim/mechanism/loads.h"
#include "sim/mechanism/owners.h"
#include "sim/mechanism/rank_space.h"
#include "sim/plan/assignment.h"
#include "sim/topology/topology.h"
#include "sim/trace/batches.h"
#include "sim/transport/transport.h"

namespace moesim {

struct ExchangeTime;

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

/// EP groups on hosts that are nodes: whole ones, or parts of one.
struct GroupNodes {
  int nodes = 1;  // of one group
  int gpus_per_node = 1;
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
  /// What carries exchanges of tokens, for whoever predicts their times; none: ideal links.
  void carried_by(TransportPtr transport) { transport_ = std::move(transport); }
  /// GPUs of all groups, for what spans them.
  int gpus() const { return count() * size_; }
  const RankSpace& ranks(int group) const { return (*spaces_)[static_cast<std::size_t>(group)]; }
  const std::vector<RankSpace>& spaces() const { return *spaces_; }
  /// The name of the cluster, for messages.
  const std::string& cluster() const { return topology_->name(); }
  /// Links and what they yield; its GPUs are what gpu() says.
  const Topology& network() const { return *topology_; }

  /// The kinds of GPUs that there are, names in models/gpu.
  std::set<std::string> gpu_models() const;
  /// GPUs of every host; 0 unless all hosts have equally many consecutive GPUs.
  int gpus_per_host() const { return gpus_per_host_; }
  /// Nothing unless hosts are so, and EP groups are whole hosts or parts of one.
  std::optional<GroupNodes> nodes() const;
  /// The most consecutive GPUs that tile all hosts and all groups.
  int equal_blocks() const;
  /// The most hosts that a group is on.
  int most_hosts() const;

  int host_of(GpuId gpu) const { return topology_->host_of(gpu); }
  /// The GPU of a group's rank.
  GpuId gpu(int group, GpuId rank) const { return GpuId(first(group) + rank.value); }
  int group_of(GpuId gpu) const { return gpu.value / size_; }
  GpuId rank_of(GpuId gpu) const { return GpuId(gpu.value % size_); }
  /// The GPU of a group's rank 0.
  std::int64_t first(int group) const { return std::int64_t{group} * size_; }

  Batch part(const Batch& batch, int group) const;
  GroupPart part(const Batch& batch, const Assignment& assignment, int group) const;
  LoadMatrix part(const LoadMatrix& loads, int group) const;
  SlotTable part(const SlotTable& table, int group) const;
  /// Lists of ranks, group by group, as lists of GPUs.
  Communicators lifted(const std::vector<const Communicators*>& of_group) const;
  /// The traffic of every group at once; one unit for all.
  ByteMatrix joined(const std::vector<ByteMatrix>& of_group) const;
  ByteMatrix in_every_group(const ByteMatrix& of_group) const;
  Assignment in_every_group(const Assignment& of_group) const;
  /// Transfers among the ranks of a group, among its GPUs.
  std::vector<ExpertTransfer> lifted(std::vector<ExpertTransfer> transfers, int group) const;
  /// Bytes by sender and receiver of transfers among all GPUs, what stays on its GPU left out;
  /// O(transfers + GPUs) memory.
  ByteMatrix traffic(std::span<const ExpertTransfer> transfers) const;
  /// What every rank of a group has, such as slots, for every GPU.
  template <class T>
  std::vector<T> in_every_group(const std::vector<T>& of_group) const {
    std::vector<T> all;
    for (int g = 0; g < count(); ++g) all.insert(all.end(), of_group.begin(), of_group.end());
    return all;
  }

  /// The longest time of a link under some traffic over the cluster, latencies aside.
  Seconds busiest_link(const ByteMatrix& traffic) const;
  /// An exchange over the cluster with the network to itself, carried as tokens are.
  ExchangeTime alone(const ByteMatrix& traffic) const;
  /// The time of the slowest of some exchanges of tokens over the cluster that start at once.
  Seconds slowest(const std::vector<GroupTraffic>& traffic) const;

 private:
  const Topology* topology_;
  int size_;
  int gpus_per_host_ = 0;
  std::shared_ptr<const std::vector<RankSpace>> spaces_;
  TransportPtr transport_;
};

}  // namespace moesim
