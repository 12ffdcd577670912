// SPDX-License-Identifier: Apache-2.0
// What descriptions of clusters by others say, before it becomes a topology.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// How NVLink or XGMI joins the GPUs of a node. `mesh`: all pairs with as many links; `mixed`: some
/// pairs, or not all alike.
enum class NvlinkShape { unknown, none, behind_switch, mesh, pairs, mixed };

/// One node as a file has it; 0 or empty: the file does not say.
struct NodeFacts {
  int gpus = 0;
  std::string gpu_name;    // "NVIDIA H100 80GB HBM3"
  bool amd = false;        // GPUs of AMD, whose links are XGMI
  bool numa_gpus = false;  // whose memories are NUMA nodes of the host, as behind Grace
  int sm = 0;              // compute capability x 10
  NvlinkShape nvlink = NvlinkShape::unknown;
  int nvlinks = 0;               // of a pair, or of a GPU if behind a switch or mixed
  BytesPerSecond nvlink_rate{};  // the same, if the file has a rate
  BytesPerSecond pcie_rate{};    // of a GPU's slot
  int sockets = 0;               // that have GPUs
  int switches = 0;              // of PCIe, per socket
  int nics = 0;                  // for exchanges among GPUs
  int slower_nics = 0;           // of these; they count as the others do
  int other_nics = 0;            // slower ones, or farther from the GPUs
  BytesPerSecond nic_rate{};
  std::string network;  // of these NICs, as topologies name it
};

/// The network of a NIC by the name of its device: "efa" of rdmap79s0, "roce" of bnxt_re0; "" of
/// mlx5_0, which may be in either kind.
inline std::string network_of_device(std::string_view device) {
  constexpr std::pair<std::string_view, const char*> names[] = {
      {"rdmap", "efa"},  {"efa", "efa"},    {"ibp", "infiniband"}, {"bnxt_re", "roce"},
      {"irdma", "roce"}, {"ionic", "roce"}, {"roce", "roce"},      {"mlx5_bond", "roce"}};
  for (const auto& [begins, network] : names) {
    if (device.starts_with(begins)) return network;
  }
  return "";
}

/// A switch of a fabric, and what hangs at it. A name is there once per link.
struct SwitchFacts {
  std::vector<std::string> hosts, switches;
  BytesPerSecond host_rate{};    // of all links to hosts together
  BytesPerSecond switch_rate{};  // of all links to switches above it together
};

/// A link to a host; a rate of 0: the file does not say.
struct HostLink {
  std::string host;
  BytesPerSecond rate{};
  std::string product = {};  // what its adapter calls itself in place of a host
};

/// Switches by name. Links between switches are in the lists of the upper one (trees) or of both
/// (graphs).
struct FabricFacts {
  std::map<std::string, SwitchFacts> switches;
  bool is_tree = true;        // levels are stated; else they follow from who has hosts
  BytesPerSecond nic_rate{};  // of one link of a host, that of most
  std::string network = {};
};

/// Hosts that share NVLink, such as the trays of a rack.
struct DomainFacts {
  int domains = 0;
  int hosts_each = 0;
};

/// One file.
struct ClusterFacts {
  std::string file;
  std::string form;  // "Slurm's topology.conf"
  std::optional<NodeFacts> node = {};
  std::optional<FabricFacts> fabric = {};
  int hosts = 0;  // that it names; 0: it does not
  DomainFacts domains = {};
  std::vector<std::string> left_out = {};  // what it says and the topology will not, as sentences
};

}  // namespace moesim
