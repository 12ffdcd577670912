// SPDX-License-Identifier: Apache-2.0
// What several files say of one cluster and of its GPU, each value with what it rests on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/topology/import/fabric_shape.h"
#include "sim/topology/import/facts.h"
#include "sim/topology/import/gpu_families.h"

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

struct StatedGpu {
  std::string model;                  // a name in models/gpu, or the device's in small letters
  std::string comment;                // what it rests on
  const GpuFamily* family = nullptr;  // null: a device that is not known
  bool is_assumed = false;            // neither a file nor the user says it
  bool is_card = false;               // for a slot of PCIe: no switch of NVLink joins these
};

/// `stated`: by the user; empty: by the files, else the commonest GPU with such links.
StatedGpu stated_gpu(const MergedFacts& facts, const std::string& stated);

/// "read: FILE: what it says".
std::string read_in(const std::string& file, const std::string& more = "");
/// "assumed: why".
std::string assumed(const std::string& why);

}  // namespace moesim
