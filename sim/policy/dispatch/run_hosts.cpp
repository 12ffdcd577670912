// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/dispatch/run_hosts.h"

#include <algorithm>
#include <map>

namespace moesim {

RunHosts::RunHosts(const Topology& topology, int ep)
    : runs_(runs_of(topology.gpu_count(), ep)),
      host_of_(static_cast<std::size_t>(topology.gpu_count())),
      index_of_(static_cast<std::size_t>(topology.gpu_count())) {
  for (const auto& run : runs_) {
    std::map<int, std::vector<GpuId>> by_host;
    for (const GpuId gpu : run) by_host[topology.host_of(gpu)].push_back(gpu);
    const std::size_t size = by_host.begin()->second.size();
    const bool uniform = std::all_of(by_host.begin(), by_host.end(),
                                     [&](const auto& host) { return host.second.size() == size; });
    std::map<std::size_t, std::vector<GpuId>> by_index;
    first_host_.push_back(static_cast<int>(hosts_.size()));
    for (auto& [host, members] : by_host) {
      for (std::size_t i = 0; i < members.size(); ++i) {
        host_of_[members[i].index()] = static_cast<int>(hosts_.size());
        index_of_[members[i].index()] = i;
        by_index[uniform ? i : 0].push_back(members[i]);
      }
      hosts_.push_back(std::move(members));
    }
    for (auto& [index, members] : by_index) {
      std::sort(members.begin(), members.end());
      across_.push_back(std::move(members));
    }
  }
  first_host_.push_back(static_cast<int>(hosts_.size()));
}

}  // namespace moesim
