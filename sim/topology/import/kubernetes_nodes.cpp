// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/read_number.h"
#include "sim/topology/import/gpu_families.h"
#include "sim/topology/import/yaml_tree.h"

namespace moesim {
namespace {

/// A label of a node by the first of some names.
template <std::size_t count>
std::string label_of(const YamlTree& node, const std::array<const char*, count>& names) {
  const YamlTree& labels = at_key(at_key(node, "metadata"), "labels");
  for (const char* name : names) {
    if (std::string label = text_at(labels, name); !label.empty()) return label;
  }
  return "";
}

int number_in(const std::string& text) {
  const bool number =
      !text.empty() && text.size() < 5 && text.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoi(text) : 0;
}

std::string product_of(const YamlTree& node) {
  return label_of(node, std::array{"nvidia.com/gpu.product", "amd.com/gpu.product-name",
                                   "cloud.google.com/gke-accelerator"});
}

/// Throws Error if pods get slices of GPUs.
void refuse_slices(const YamlTree& node) {
  std::string slice = product_of(node);
  if (slice.find("-MIG-") == std::string::npos) {
    slice.clear();
    const YamlTree& capacity = at_key(at_key(node, "status"), "capacity");
    if (capacity.is_object()) {
      for (const auto& [resource, count] : capacity.items()) {
        const bool any = number_in(text_at(capacity, resource.c_str())) > 0;
        if (resource.starts_with("nvidia.com/mig-") && any) slice = resource;
      }
    }
  }
  if (slice.empty()) return;
  throw Error(fmt::format("node '{}' has slices of GPUs, '{}'",
                          text_at(at_key(node, "metadata"), "name"), slice),
              "nodes whose GPUs are whole: MIG is off");
}

/// GPUs of a node. Of what they are shared as, pods count each as often as the label of replicas
/// says; the label of the count then has GPUs, or also their replicas.
int gpus_of(const YamlTree& node) {
  refuse_slices(node);
  constexpr const char* resources[] = {"nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpu.shared"};
  const YamlTree& capacity = at_key(at_key(node, "status"), "capacity");
  int devices = 0;
  for (const char* resource : resources)
    devices = std::max(devices, number_in(text_at(capacity, resource)));
  const int count =
      number_in(label_of(node, std::array{"nvidia.com/gpu.count", "amd.com/gpu.count"}));
  const int replicas = number_in(label_of(node, std::array{"nvidia.com/gpu.replicas"}));
  const bool named = product_of(node).ends_with("-SHARED");
  if (!named && (replicas < 2 || (count > 0 && devices <= count)))
    return count > 0 ? count : devices;
  if (replicas < 2) {
    throw Error(fmt::format("node '{}' shares its GPUs, and nothing says how many there are",
                            text_at(at_key(node, "metadata"), "name")),
                "the label nvidia.com/gpu.replicas, as GPU feature discovery sets it");
  }
  if (count > 0 && devices > count) return count;
  return std::max(count, devices) / replicas;
}

/// Labels of switches above a node, from the lowest: of topograph, AWS, Google and Oracle.
constexpr std::array<std::array<const char*, 5>, 3> switch_labels = {
    {{"network.topology.nvidia.com/leaf", "network.topology.kubernetes.io/block",
      "topology.k8s.aws/network-node-layer-3", "cloud.google.com/gce-topology-subblock",
      "oci.oraclecloud.com/rdma.local_block_id"},
     {"network.topology.nvidia.com/spine", "network.topology.kubernetes.io/spine",
      "topology.k8s.aws/network-node-layer-2", "cloud.google.com/gce-topology-block",
      "oci.oraclecloud.com/rdma.network_block_id"},
     {"network.topology.nvidia.com/core", "network.topology.kubernetes.io/datacenter",
      "topology.k8s.aws/network-node-layer-1", "", "oci.oraclecloud.com/rdma.hpc_island_id"}}};

void add_labelled(FabricFacts& fabric, const YamlTree& node, const std::string& host) {
  std::vector<std::string> above;
  for (const auto& names : switch_labels) {
    if (std::string name = label_of(node, names); !name.empty()) above.push_back(name);
  }
  if (above.empty()) return;
  fabric.switches[above.front()].hosts.push_back(host);
  for (std::size_t level = 1; level < above.size(); ++level) {
    auto& below = fabric.switches[above[level]].switches;
    if (std::ranges::find(below, above[level - 1]) == below.end())
      below.push_back(above[level - 1]);
  }
}

/// Machines of clouds by the beginnings of their types, with GPUs of each.
struct InstanceKind {
  const char* beginning;
  const char* gpu;
  int gpus;
};
constexpr std::array<InstanceKind, 23> instance_kinds = {
    {{"p3.16xlarge", "V100", 8},
     {"p3dn.", "V100", 8},
     {"p4d.", "A100-SXM4-40GB", 8},
     {"p4de.", "A100-SXM4-80GB", 8},
     {"p5.4xlarge", "H100", 1},
     {"p5.", "H100", 8},
     {"p5e.", "H200", 8},
     {"p5en.", "H200", 8},
     {"p6-b200.", "B200", 8},
     {"p6-b300.", "B300", 8},
     {"p6e-gb200.", "GB200", 4},
     {"p6e-gb300.", "GB300", 4},
     {"a2-ultragpu-", "A100-SXM4-80GB", 0},
     {"a2-", "A100-SXM4-40GB", 0},
     {"a3-ultragpu-", "H200", 0},
     {"a3-", "H100", 0},
     {"a4-", "B200", 0},
     {"a4x-maxgpu-", "GB300", 0},
     {"a4x-", "GB200", 0},
     {"Standard_ND96asr_v4", "A100-SXM4-40GB", 8},
     {"Standard_ND96amsr_A100", "A100", 8},
     {"Standard_ND96", "", 8},
     {"Standard_ND128", "", 4}}};

/// "p5.48xlarge" has 8 of H100, "a3-megagpu-8g" as many as it says.
struct Instance {
  std::string gpu;  // with the type
  int gpus = 0;
};
Instance instance_of(const YamlTree& node) {
  const std::string type = label_of(
      node, std::array{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"});
  for (const InstanceKind& kind : instance_kinds) {
    if (!type.starts_with(kind.beginning)) continue;
    const std::string of = *kind.gpu ? fmt::format("{} of {}", kind.gpu, type) : type;
    if (kind.gpus > 0 || !type.ends_with('g')) return {of, kind.gpus};
    const std::string count = type.substr(type.rfind('-') + 1);
    const int gpus = parse_integer<int>(count.substr(0, count.size() - 1)).value_or(0);
    return {of, gpus >= 1 && gpus <= 16 ? gpus : 0};
  }
  return {family_named(type) ? type : "", 0};
}

}  // namespace

void kubernetes_nodes(const YamlTree& root, ClusterFacts& facts) {
  const YamlTree& items = at_key(root, "items");
  const YamlTree list = items.is_array() ? items : YamlTree::array({root});
  NodeFacts node;
  FabricFacts fabric;
  std::map<std::string, int> cliques;
  int others = 0;
  for (const YamlTree& one : list) {
    const Instance instance = instance_of(one);
    const int counted_gpus = gpus_of(one), gpus = counted_gpus > 0 ? counted_gpus : instance.gpus;
    if (gpus == 0) {
      ++others;
      continue;
    }
    const std::string host = text_at(at_key(one, "metadata"), "name");
    std::string product = product_of(one);
    if (product.empty()) product = instance.gpu;
    if (node.gpus > 0 && (gpus != node.gpus || product != node.gpu_name)) {
      throw Error(fmt::format("nodes differ: {} x '{}' and {} x '{}'", node.gpus, node.gpu_name,
                              gpus, product),
                  "a list of one kind (kubectl get nodes -l nvidia.com/gpu.product=...)");
    }
    node.gpus = gpus;
    node.gpu_name = product;
    ++facts.hosts;
    const YamlTree& devices = at_key(at_key(one, "status"), "capacity");
    if (!text_at(devices, "vpc.amazonaws.com/efa").empty()) node.network = "efa";
    const std::string clique = label_of(
        one, std::array{"nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"});
    if (!clique.empty()) ++cliques[clique];
    add_labelled(fabric, one, host);
  }
  if (facts.hosts == 0) throw Error("no node with GPUs", "kubectl get nodes -o yaml");
  if (others > 0) facts.left_out.push_back(fmt::format("{} without GPUs", counted(others, "node")));
  facts.node = node;
  if (!fabric.switches.empty()) facts.fabric = std::move(fabric);
  // A domain of one node is what every node has.
  if (static_cast<int>(cliques.size()) < facts.hosts) set_domains(facts, cliques);
}

}  // namespace moesim
