// SPDX-License-Identifier: Apache-2.0
// What hwloc knows of a node: packages, PCI bridges, and devices with their vendors' numbers.
#include <algorithm>
#include <array>
#include <utility>

#include "sim/topology/import/xml_tree.h"

namespace moesim {
namespace {

/// GPUs by their PCI numbers.
constexpr std::array<std::pair<const char*, const char*>, 17> pci_gpus = {
    {{"10de:1db5", "Tesla V100"},
     {"10de:20b0", "NVIDIA A100"},
     {"10de:20b2", "NVIDIA A100"},
     {"10de:20b5", "NVIDIA A100"},
     {"10de:20f3", "NVIDIA A800"},
     {"10de:2230", "NVIDIA RTX A6000"},
     {"10de:2322", "NVIDIA H800"},
     {"10de:2324", "NVIDIA H800"},
     {"10de:2329", "NVIDIA H20"},
     {"10de:2330", "NVIDIA H100"},
     {"10de:2331", "NVIDIA H100"},
     {"10de:2335", "NVIDIA H200"},
     {"10de:2901", "NVIDIA B200"},
     {"10de:2941", "NVIDIA GB200"},
     {"10de:3182", "NVIDIA B300"},
     {"1002:74a1", "AMD Instinct MI300X"},
     {"1002:75a0", "AMD Instinct MI355X"}}};

bool is_kind(const pugi::xml_node& object, const std::string& type) {
  return object.attribute("type").as_string() == type;
}

std::string info_of(const pugi::xml_node& object, const std::string& name) {
  for (const pugi::xml_node& info : object.children("info")) {
    if (info.attribute("name").as_string() == name) return info.attribute("value").as_string();
  }
  return "";
}

/// "0302 [10de:2330] [...] a1": class and numbers.
bool is_gpu_device(const pugi::xml_node& object) {
  const std::string type = object.attribute("pci_type").as_string();
  return is_kind(object, "PCIDev") && type.starts_with("03") &&
         (type.find("[10de:") != std::string::npos || type.find("[1002:") != std::string::npos);
}

std::string gpu_name_of(const pugi::xml_node& device) {
  for (const pugi::xml_node& part : device.children("object")) {
    if (const std::string model = info_of(part, "GPUModel"); !model.empty()) return model;
  }
  const std::string type = device.attribute("pci_type").as_string();
  for (const auto& [id, name] : pci_gpus) {
    if (type.find(id) != std::string::npos) return name;
  }
  return info_of(device, "PCIDevice");
}

/// Ports of InfiniBand or RoCE: an OpenFabrics device.
bool has_verbs(const pugi::xml_node& device) {
  return std::ranges::any_of(device.children("object"), [](const pugi::xml_node& part) {
    const std::string kind = part.attribute("osdev_type").as_string();
    return is_kind(part, "OSDev") && (kind == "3" || kind == "OpenFabrics" || kind == "0x8");
  });
}

}  // namespace

NodeFacts hwloc_facts(const pugi::xml_node& topology) {
  NodeFacts node;
  std::set<std::ptrdiff_t> sockets;
  for_elements(topology, [&](const pugi::xml_node& object) {
    if (!is_kind(object, "PCIDev")) return;
    // Gigabytes per second of the slot as it runs.
    const BytesPerSecond rate(leading_number(object.attribute("pci_link_speed").as_string()) * 1e9);
    if (has_verbs(object)) {
      ++node.nics;
      const std::string type = object.attribute("pci_type").as_string();
      if (type.starts_with("0207")) node.network = "infiniband";
      return;
    }
    if (!is_gpu_device(object)) return;
    ++node.gpus;
    node.pcie_rate = std::max(node.pcie_rate, rate);
    if (node.gpu_name.empty()) node.gpu_name = gpu_name_of(object);
    for (pugi::xml_node up = object.parent(); up; up = up.parent()) {
      if (is_kind(up, "Package")) sockets.insert(up.offset_debug());
    }
  });
  node.sockets = static_cast<int>(sockets.size());
  return node;
}

}  // namespace moesim
