// SPDX-License-Identifier: Apache-2.0
// What several files say of one cluster, each value with what it rests on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/topology/import/fabric_shape.h"
#include "sim/topology/import/facts.h"

namespace moesim {

/// A value and the file that says so.
template <class T>
struct Said {
  T value{};
  std::string file;  // empty: no file says it
  bool known() const { return !file.empty(); }
};

struct MergedFacts {
  Said<int> gpus, sm, nvlinks, sockets, switches, nics, other_nics, hosts, domains, hosts_each;
  Said<std::string> gpu_name, network;
  Said<bool> amd, numa_gpus;
  Said<NvlinkShape> nvlink;
  Said<BytesPerSecond> nvlink_rate, pcie_rate, nic_rate;
  std::optional<Said<FabricShape>> fabric;
  int node_files = 0;
  std::vector<std::string> left_out;
};

/// Throws Error that names both files if they contradict each other.
MergedFacts merged(const std::vector<ClusterFacts>& files);

}  // namespace moesim
