// SPDX-License-Identifier: Apache-2.0
// Nodes: GPUs joined by NVLink and PCIe, with their NICs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/topology/generate/builder.h"

namespace moesim {
namespace {

class Node {
 public:
  Node(Builder& builder, const NodeSpec& spec, std::string prefix)
      : builder_(builder),
        spec_(spec),
        prefix_(std::move(prefix)),
        host_(builder.next_host()),
        switches_(spec.pcie.sockets * spec.pcie.switches) {}

  std::vector<Nic> build(int node, int data_center_group) {
    add_gpus(data_center_group);
    join_by_nvlink();
    join_by_pcie();
    join_ports();
    std::vector<Nic> nics;
    for (int k = 0; k < spec_.nics; ++k) {
      const int nic = add(fmt::format("nic{}", k), VertexKind::nic);
      attach_nic(nic, k);
      nics.push_back({nic, node, k, spec_.nic});
    }
    join_host_memory();
    return nics;
  }

 private:
  int add(const std::string& name, VertexKind kind) {
    return builder_.vertex(prefix_ + name, kind, host_);
  }
  void pcie(int a, int b) { builder_.cable(a, b, "pcie", Tier::host, spec_.pcie.link, cost::pcie); }
  void nvlink(int a, int b) {
    builder_.cable(a, b, "nvlink", Tier::host, spec_.nvlink_wire, cost::nvlink);
  }

  /// Levels below the node matter if they bound communication: not behind all-to-all NVLink.
  void add_gpus(int data_center_group) {
    const bool nested = spec_.nvlink == NvlinkKind::none || spec_.nvlink == NvlinkKind::pairs;
    const int node = builder_.next_group(depth::node);
    int socket = -1, pcie_switch = -1, pair = -1;
    for (int g = 0; g < spec_.gpus; ++g) {
      gpus_.push_back(add(fmt::format("gpu{}", g), VertexKind::gpu));
      std::map<int, int> groups = {{depth::data_center, data_center_group}, {depth::node, node}};
      const auto nest = [&](int level, int parts, int& group) {
        if (!nested || parts <= 0) return;
        if (g % (spec_.gpus / parts) == 0) group = builder_.next_group(level);
        groups[level] = group;
      };
      nest(depth::socket, spec_.pcie.sockets, socket);
      nest(depth::pcie_switch, switches_, pcie_switch);
      nest(depth::pair, spec_.nvlink == NvlinkKind::pairs ? spec_.gpus / 2 : 0, pair);
      builder_.gpu(gpus_.back(), spec_.gpu, std::move(groups));
    }
  }

  void join_by_nvlink() {
    if (spec_.nvlink == NvlinkKind::behind_switch) {
      const int all = add("nvswitch", VertexKind::nvswitch);
      for (const int gpu : gpus_) nvlink(gpu, all);
    }
    for (std::size_t a = 0; a < gpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < gpus_.size(); ++b) {
        const bool paired = spec_.nvlink == NvlinkKind::pairs && a % 2 == 0 && b == a + 1;
        if (paired || spec_.nvlink == NvlinkKind::mesh) nvlink(gpus_[a], gpus_[b]);
      }
    }
  }

  void join_by_pcie() {
    const int sockets = spec_.pcie.sockets;
    for (int s = 0; s < sockets; ++s) {
      sockets_.push_back(add(fmt::format("socket{}", s), VertexKind::socket));
      for (int other = 0; other < s; ++other) {
        builder_.cable(sockets_[other], sockets_.back(), "socket", Tier::host, spec_.pcie.socket,
                       cost::socket);
      }
    }
    for (int w = 0; w < switches_; ++w) {
      pcie_switches_.push_back(add(fmt::format("pcie{}", w), VertexKind::pcie_switch));
      pcie(pcie_switches_.back(), sockets_[w / spec_.pcie.switches]);
    }
    if (sockets == 0) return;
    const std::vector<int>& above = switches_ > 0 ? pcie_switches_ : sockets_;
    const std::size_t each = gpus_.size() / above.size();
    for (std::size_t g = 0; g < gpus_.size(); ++g) pcie(gpus_[g], above[g / each]);
  }

  /// A GPU has one port: what its NICs share is a switch with a link to it.
  void join_ports() {
    if (!spec_.shares_ports()) return;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      ports_.push_back(add(fmt::format("pcie{}", g), VertexKind::pcie_switch));
      pcie(gpus_[g], ports_.back());
    }
  }

  /// At its GPUs without a PCIe tree; else spread over the switches, or else over the sockets.
  void attach_nic(int nic, int k) {
    if (spec_.pcie.sockets == 0) {
      if (spec_.nics >= spec_.gpus) {
        const auto gpu = static_cast<std::size_t>(k / (spec_.nics / spec_.gpus));
        if (pcie_ends_.size() == gpu) pcie_ends_.push_back(nic);
        if (ports_.empty()) return pcie(gpus_[gpu], nic);
        // The link of the GPU has the latency, and yields less if it is crowded or measured.
        const Wire behind{spec_.pcie.link.bandwidth, Seconds(0)};
        builder_.cable(ports_[gpu], nic, "pcie", Tier::host, behind, cost::pcie);
        return;
      }
      const int each = spec_.gpus / spec_.nics;
      for (int g = k * each; g < (k + 1) * each; ++g) pcie(gpus_[g], nic);
      pcie_ends_.insert(pcie_ends_.end(), static_cast<std::size_t>(each), nic);
      return;
    }
    const bool at_switch = switches_ > 0 && spec_.nics % switches_ == 0;
    const std::vector<int>& places = at_switch ? pcie_switches_ : sockets_;
    const int each = std::max(1, spec_.nics / static_cast<int>(places.size()));
    pcie(places[k / each], nic);
  }

  /// A GPU's copies to the memory of its host share its PCIe link with its NIC, and the tree above
  /// if there is one; or have a link of their own.
  void join_host_memory() {
    if (spec_.c2c) {
      std::vector<int> memories;
      for (std::size_t g = 0; g < gpus_.size(); ++g) {
        memories.push_back(add(fmt::format("memory{}", g), VertexKind::socket));
        builder_.cable(gpus_[g], memories.back(), "c2c", Tier::host, *spec_.c2c, cost::pcie);
      }
      return builder_.host_memory(memories);
    }
    if (!spec_.pcie.stated) return;
    if (sockets_.empty()) return builder_.host_memory(ports_.empty() ? pcie_ends_ : ports_);
    std::vector<int> of_gpus;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      of_gpus.push_back(sockets_[g * sockets_.size() / gpus_.size()]);
    }
    builder_.host_memory(of_gpus);
  }

  Builder& builder_;
  const NodeSpec& spec_;
  std::string prefix_;
  int host_;
  int switches_;
  std::vector<int> gpus_, sockets_, pcie_switches_;
  std::vector<int> ports_;      // of the GPUs, if several NICs share each
  std::vector<int> pcie_ends_;  // [GPU] the first NIC at it, without sockets
};

}  // namespace

std::vector<Nic> build_node(Builder& builder, const NodeSpec& spec, const std::string& prefix,
                            int node, int data_center_group) {
  return Node(builder, spec, prefix).build(node, data_center_group);
}

}  // namespace moesim
