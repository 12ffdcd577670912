// SPDX-License-Identifier: Apache-2.0
// The hosts that the ranks of a run sit in, for dispatches that tell inside a node from between.
#pragma once

#include <span>
#include <vector>

#include "sim/policy/dispatch.h"

namespace moesim {

/// Every run of `ep` ranks, host by host.
class RunHosts {
 public:
  RunHosts(const Topology& topology, int ep);

  const Communicators& runs() const { return runs_; }
  /// The ranks that share a host within a run.
  const Communicators& hosts() const { return hosts_; }
  /// GPUs of equal index in the hosts of a run; all of the run where its hosts differ in size.
  const Communicators& across() const { return across_; }

  /// Whether some run has several hosts.
  bool spread() const { return hosts_.size() > runs_.size(); }
  /// Whether some host has several ranks of a run.
  bool shared() const { return hosts_.size() < host_of_.size(); }
  const std::vector<GpuId>& run(GpuId gpu) const { return runs_[run_of(gpu)]; }
  /// The host of a GPU, among hosts().
  int host_of(GpuId gpu) const { return host_of_[gpu.index()]; }
  const std::vector<GpuId>& host(int host) const { return hosts_[static_cast<std::size_t>(host)]; }
  /// The hosts of a GPU's run: ids from .first up to .second, excluded.
  std::pair<int, int> hosts_of_run(GpuId gpu) const {
    return {first_host_[run_of(gpu)], first_host_[run_of(gpu) + 1]};
  }
  /// The GPU of a host that has the index of `gpu` in its own (modulo a smaller host's size).
  GpuId counterpart(GpuId gpu, int host) const {
    const auto& members = hosts_[static_cast<std::size_t>(host)];
    return members[index_of_[gpu.index()] % members.size()];
  }

 private:
  std::size_t run_of(GpuId gpu) const { return gpu.index() / runs_.front().size(); }

  Communicators runs_, hosts_, across_;
  std::vector<int> first_host_;        // [run], and the end
  std::vector<int> host_of_;           // [gpu]
  std::vector<std::size_t> index_of_;  // [gpu] place within its host
};

}  // namespace moesim
