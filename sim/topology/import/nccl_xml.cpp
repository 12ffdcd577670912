// SPDX-License-Identifier: Apache-2.0
// What NCCL dumps of a node: its tree of CPUs, PCI devices, GPUs and NICs, and its graphs.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "sim/topology/import/xml_tree.h"

namespace moesim {
namespace {

std::string text_of(const pugi::xml_node& element, const char* key) {
  return element.attribute(key).as_string();
}

/// "0x0302": displays and 3D controllers.
bool is_gpu_slot(const pugi::xml_node& pci) {
  return pci.child("gpu") || text_of(pci, "class").starts_with("0x03");
}
bool is_bridge(const pugi::xml_node& pci) { return text_of(pci, "class").starts_with("0x0604"); }

/// Bytes per second of a slot: transfers per second and lane, a bit each.
BytesPerSecond slot_rate(const pugi::xml_node& pci) {
  return BytesPerSecond(leading_number(text_of(pci, "link_speed")) * 1e9 / 8 *
                        pci.attribute("link_width").as_int(0));
}

/// NVLinks of one GPU by where they end.
struct LinksOfGpu {
  int to_switch = 0;
  std::vector<int> to_gpus;
  int all() const { return std::accumulate(to_gpus.begin(), to_gpus.end(), to_switch); }
};

LinksOfGpu links_of(const pugi::xml_node& gpu) {
  LinksOfGpu links;
  for (const pugi::xml_node& link : gpu.children()) {
    const std::string kind = link.name();
    if (kind != "nvlink" && kind != "xgmi") continue;
    const int count = std::clamp(link.attribute("count").as_int(0), 0, 1000);
    if (kind == "xgmi" || text_of(link, "tclass").starts_with("0x03")) {
      links.to_gpus.push_back(count);
    } else {
      links.to_switch += count;
    }
  }
  return links;
}

void set_nvlink(const std::vector<LinksOfGpu>& all, NodeFacts& node) {
  const auto has_peers = [](const LinksOfGpu& gpu) { return !gpu.to_gpus.empty(); };
  for (const LinksOfGpu& gpu : all) {
    node.nvlinks = std::max(node.nvlinks, gpu.to_switch);
    for (const int links : gpu.to_gpus) node.nvlinks = std::max(node.nvlinks, links);
  }
  if (node.nvlinks == 0) {
    node.nvlink = NvlinkShape::none;
  } else if (std::ranges::none_of(all, has_peers)) {
    node.nvlink = NvlinkShape::behind_switch;
  } else {
    const auto alike = [&](std::size_t peers) {
      return std::ranges::all_of(all, [&](const LinksOfGpu& gpu) {
        return gpu.to_gpus.size() == peers &&
               std::ranges::all_of(gpu.to_gpus, [&](int n) { return n == node.nvlinks; });
      });
    };
    node.nvlink = alike(all.size() - 1) ? (all.size() == 2 ? NvlinkShape::pairs : NvlinkShape::mesh)
                  : alike(1) && all.size() % 2 == 0 ? NvlinkShape::pairs
                                                    : NvlinkShape::mixed;
    if (node.nvlink != NvlinkShape::mixed) return;
    for (const LinksOfGpu& gpu : all) {
      node.nvlinks = std::max(node.nvlinks, gpu.all());
    }
  }
}

/// Only the fastest NICs take part in exchanges, and slower ones without which GPUs have unequally
/// many: links come up slower, by up to `slowest`.
void set_nets(const std::vector<pugi::xml_node>& nets, NodeFacts& node) {
  constexpr double slowest = 8;
  std::map<BytesPerSecond, int, std::greater<>> count_of;
  for (const pugi::xml_node& net : nets) {
    const BytesPerSecond rate(leading_number(text_of(net, "speed")) * 1e6 / 8);
    if (rate > node.nic_rate) {
      node.nic_rate = rate;
      node.network.clear();
    }
    ++count_of[rate];
    if (rate == node.nic_rate && node.network.empty()) {
      node.network = network_of_device(text_of(net, "name"));
    }
  }
  if (count_of.empty()) return;
  node.nics = count_of.begin()->second;
  const auto is_shared = [&](int nics) { return nics % node.gpus == 0 || node.gpus % nics == 0; };
  int all = node.nics;
  for (const auto& [rate, count] : count_of) {
    if (node.gpus == 0 || is_shared(node.nics) || rate.value * slowest < node.nic_rate.value) break;
    if (rate != node.nic_rate) all += count;
    if (all % node.gpus == 0) {
      node.slower_nics = all - node.nics;
      node.nics = all;
    }
  }
  node.other_nics = static_cast<int>(nets.size()) - node.nics;
}

/// Files that clouds ship for NCCL have PCI devices without what is in them: InfiniBand by its
/// class, else Ethernet next to a GPU.
void add_bare_nics(const pugi::xml_node& system, NodeFacts& node) {
  int infiniband = 0, near = 0, far = 0;
  for_elements(system, [&](const pugi::xml_node& element) {
    const std::string device = text_of(element, "class");
    infiniband += device.starts_with("0x0207");
    if (!device.starts_with("0x0200")) return;
    const auto beside = element.parent().children("pci");
    const bool at_switch = std::string(element.parent().name()) == "pci";
    at_switch&& std::ranges::any_of(beside, is_gpu_slot) ? ++near : ++far;
  });
  node.nics = infiniband > 0 ? infiniband : near;
  node.other_nics = infiniband > 0 ? near + far : far;
  if (infiniband > 0) node.network = "infiniband";
}

}  // namespace

NodeFacts nccl_system_facts(const pugi::xml_node& system) {
  NodeFacts node;
  std::vector<LinksOfGpu> links;
  std::vector<pugi::xml_node> nets;
  for (const pugi::xml_node& cpu : system.children("cpu")) {
    int gpus = 0, switches = 0;
    for (const pugi::xml_node& pci : cpu.children("pci")) {
      if (is_bridge(pci) && count_elements(pci, "gpu") > 0) ++switches;
    }
    for_elements(cpu, [&](const pugi::xml_node& element) {
      const std::string kind = element.name();
      if (kind == "net") nets.push_back(element);
      if (kind != "pci" || !is_gpu_slot(element)) return;
      ++gpus;
      const pugi::xml_node gpu = element.child("gpu");
      links.push_back(links_of(gpu));
      if (const std::string gcn = text_of(gpu, "gcn"); !gcn.empty()) {
        node.amd = true;
        node.gpu_name = gcn.starts_with("gfx") ? gcn : "gfx" + gcn;  // of RCCL
      } else {
        node.sm = std::max(node.sm, gpu.attribute("sm").as_int(0));
      }
      node.pcie_rate = std::max(node.pcie_rate, slot_rate(element));
    });
    node.gpus += gpus;
    node.sockets += gpus > 0;
    node.switches = std::max(node.switches, switches);
  }
  set_nets(nets, node);
  if (count_elements(system, "net") == 0) add_bare_nics(system, node);
  const bool known = std::ranges::any_of(
      links, [](const LinksOfGpu& gpu) { return gpu.to_switch > 0 || !gpu.to_gpus.empty(); });
  if (known || count_elements(system, "gpu") > 0) set_nvlink(links, node);
  return node;
}

NodeFacts nccl_graph_facts(const pugi::xml_node& graphs) {
  NodeFacts node;
  std::set<std::string> gpus, nets;
  for_elements(graphs, [&](const pugi::xml_node& element) {
    const std::string kind = element.name();
    if (kind == "gpu") gpus.insert(text_of(element, "dev"));
    if (kind == "net") nets.insert(text_of(element, "dev"));
  });
  node.gpus = static_cast<int>(gpus.size());
  node.nics = static_cast<int>(nets.size());
  const pugi::xml_node ring = graphs.child("graph");
  const int channels = std::clamp(ring.attribute("nchannels").as_int(0), 0, 1000);
  const std::string inside = text_of(ring, "typeintra");
  node.nvlink = inside == "NVL" || inside == "NVB" ? NvlinkShape::behind_switch
                : inside.empty()                   ? NvlinkShape::unknown
                                                   : NvlinkShape::none;
  const double intra = leading_number(text_of(ring, "speedintra")) * 1e9 * channels;
  if (node.nvlink == NvlinkShape::behind_switch) node.nvlink_rate = BytesPerSecond(intra);
  if (!nets.empty()) {
    node.nic_rate = BytesPerSecond(leading_number(text_of(ring, "speedinter")) * 1e9 * channels /
                                   static_cast<double>(nets.size()));
  }
  return node;
}

}  // namespace moesim
