// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/yaml_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/counted.h"
#include "sim/base/error.h"
#include "sim/base/yaml.h"
#include "sim/topology/import/host_list.h"

namespace moesim {
namespace {

using Tree = nlohmann::ordered_json;

/// The value of a key; null if there is none.
const Tree& at_key(const Tree& tree, const char* key) {
  static const Tree none;
  if (!tree.is_object()) return none;
  const auto found = tree.find(key);
  return found == tree.end() ? none : *found;
}

std::string text_at(const Tree& tree, const char* key) {
  const Tree& value = at_key(tree, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : "";
}

/// "node[01-02]", or a list of such.
std::vector<std::string> hosts_at(const Tree& tree, const char* key) {
  const Tree& value = at_key(tree, key);
  if (value.is_string()) return expand_hosts(value.get<std::string>());
  std::vector<std::string> hosts;
  if (!value.is_array()) return hosts;
  for (const Tree& item : value) {
    if (!item.is_string()) continue;
    const auto more = expand_hosts(item.get<std::string>());
    hosts.insert(hosts.end(), more.begin(), more.end());
  }
  return hosts;
}

int count_hosts(const FabricFacts& fabric) {
  std::set<std::string> hosts;
  for (const auto& [name, one] : fabric.switches) hosts.insert(one.hosts.begin(), one.hosts.end());
  return static_cast<int>(hosts.size());
}

void add_switch(FabricFacts& fabric, const std::string& name, SwitchFacts one) {
  if (name.empty()) throw Error("a switch has no name");
  if (!fabric.switches.emplace(name, std::move(one)).second) {
    throw Error(fmt::format("switch '{}' is there twice", name));
  }
}

/// Domains without hosts do not count: files name blocks that are empty at the moment.
void set_domains(ClusterFacts& facts, const std::map<std::string, int>& hosts_of) {
  int domains = 0, most = 0;
  for (const auto& [name, hosts] : hosts_of) {
    domains += hosts > 0 ? 1 : 0;
    most = std::max(most, hosts);
  }
  if (domains > 0) facts.domains = {domains, most};
}

/// Slurm: a list of topologies, of which the default counts, else the first.
void read_slurm(const Tree& root, ClusterFacts& facts) {
  const Tree* chosen = &root.front();
  for (const Tree& one : root) {
    const Tree& standard = at_key(one, "cluster_default");
    if (standard.is_boolean() && standard.get<bool>()) chosen = &one;
  }
  if (root.size() > 1) {
    facts.left_out.push_back(fmt::format("{} other topologies of the file", root.size() - 1));
  }
  FabricFacts fabric;
  for (const Tree& one : at_key(at_key(*chosen, "tree"), "switches")) {
    add_switch(fabric, text_at(one, "switch"), {hosts_at(one, "nodes"), hosts_at(one, "children")});
  }
  facts.hosts = count_hosts(fabric);
  if (!fabric.switches.empty()) facts.fabric = std::move(fabric);
  std::map<std::string, int> blocks;
  for (const Tree& one : at_key(at_key(*chosen, "block"), "blocks")) {
    const auto hosts = hosts_at(one, "nodes");
    blocks[text_at(one, "block")] = static_cast<int>(hosts.size());
    if (!facts.fabric) facts.hosts += static_cast<int>(hosts.size());
  }
  set_domains(facts, blocks);
  if (!facts.fabric && blocks.empty()) throw Error("neither a tree of switches nor blocks");
}

/// topograph's models: switches, and capacity blocks of nodes that may share an NVLink domain.
void read_topograph(const Tree& root, ClusterFacts& facts) {
  FabricFacts fabric;
  std::map<std::string, std::vector<std::string>> nodes_of;
  std::map<std::string, int> domains;
  for (const Tree& block : at_key(root, "capacity_blocks")) {
    auto& nodes = nodes_of[text_at(block, "name")] = hosts_at(block, "nodes");
    const std::string domain = text_at(block, "nvlink");
    if (!domain.empty()) domains[domain] += static_cast<int>(nodes.size());
    if (facts.node || text_at(block, "type").empty()) continue;
    facts.node.emplace().gpu_name = text_at(block, "type");
  }
  for (const Tree& one : at_key(root, "switches")) {
    SwitchFacts facts_of{hosts_at(one, "nodes"), hosts_at(one, "switches")};
    for (const std::string& block : hosts_at(one, "capacity_blocks")) {
      const auto& nodes = nodes_of[block];
      facts_of.hosts.insert(facts_of.hosts.end(), nodes.begin(), nodes.end());
    }
    add_switch(fabric, text_at(one, "name"), std::move(facts_of));
  }
  facts.hosts = count_hosts(fabric);
  if (facts.hosts == 0) throw Error("no switch with nodes");
  facts.fabric = std::move(fabric);
  set_domains(facts, domains);
}

/// A label of a node by the first of some names.
std::string label_of(const Tree& node, std::initializer_list<const char*> names) {
  const Tree& labels = at_key(at_key(node, "metadata"), "labels");
  for (const char* name : names) {
    if (std::string label = text_at(labels, name); !label.empty()) return label;
  }
  return "";
}

int gpus_of(const Tree& node) {
  std::string count = label_of(node, {"nvidia.com/gpu.count", "amd.com/gpu.count"});
  for (const char* resource : {"nvidia.com/gpu", "amd.com/gpu"}) {
    if (count.empty()) count = text_at(at_key(at_key(node, "status"), "capacity"), resource);
  }
  const bool number = !count.empty() && count.size() < 5 &&
                      count.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoi(count) : 0;
}

/// The switches above a node by topograph's labels, the lowest first.
void add_labelled(FabricFacts& fabric, const Tree& node, const std::string& host) {
  const std::string leaf =
      label_of(node, {"network.topology.nvidia.com/leaf", "network.topology.kubernetes.io/block"});
  const std::string spine =
      label_of(node, {"network.topology.nvidia.com/spine", "network.topology.kubernetes.io/spine"});
  const std::string core = label_of(
      node, {"network.topology.nvidia.com/core", "network.topology.kubernetes.io/datacenter"});
  if (leaf.empty()) return;
  fabric.switches[leaf].hosts.push_back(host);
  const auto add_below = [&](const std::string& upper, const std::string& lower) {
    if (upper.empty() || lower.empty()) return;
    auto& below = fabric.switches[upper].switches;
    if (std::ranges::find(below, lower) == below.end()) below.push_back(lower);
  };
  add_below(spine, leaf);
  add_below(core, spine);
}

void read_kubernetes(const Tree& root, ClusterFacts& facts) {
  const Tree& items = at_key(root, "items");
  const Tree list = items.is_array() ? items : Tree::array({root});
  NodeFacts node;
  FabricFacts fabric;
  std::map<std::string, int> cliques;
  int others = 0;
  for (const Tree& one : list) {
    const int gpus = gpus_of(one);
    if (gpus == 0) {
      ++others;
      continue;
    }
    const std::string host = text_at(at_key(one, "metadata"), "name");
    const std::string product =
        label_of(one, {"nvidia.com/gpu.product", "amd.com/gpu.product-name"});
    if (node.gpus > 0 && (gpus != node.gpus || product != node.gpu_name)) {
      throw Error(fmt::format("nodes differ: {} x '{}' and {} x '{}'", node.gpus, node.gpu_name,
                              gpus, product),
                  "a list of one kind (kubectl get nodes -l nvidia.com/gpu.product=...)");
    }
    node.gpus = gpus;
    node.gpu_name = product;
    ++facts.hosts;
    const std::string clique =
        label_of(one, {"nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"});
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

struct YamlForm {
  const char* name;
  bool (*looks)(const Tree& root);
  void (*read)(const Tree& root, ClusterFacts& facts);
};

bool has_slurm(const Tree& root) {
  return root.is_array() && !root.empty() && root.front().is_object() &&
         root.front().contains("topology") &&
         (root.front().contains("tree") || root.front().contains("block") ||
          root.front().contains("flat"));
}
bool has_nodes(const Tree& root) {
  const std::string kind = text_at(root, "kind");
  return kind == "Node" || kind == "NodeList" || (kind == "List" && root.contains("items"));
}
bool has_switches(const Tree& root) {
  return at_key(root, "switches").is_array() && !root.contains("vertices");
}

constexpr std::array<YamlForm, 3> yaml_form_table = {
    {{"Slurm's topology.yaml", has_slurm, read_slurm},
     {"a Kubernetes list of nodes", has_nodes, read_kubernetes},
     {"topograph's model", has_switches, read_topograph}}};

Tree tree_of(const std::string& text, const std::string& name) {
  const auto document = YamlDocument::from_text(text, name);
  return Tree::parse(document->root().json());
}

}  // namespace

ClusterFacts yaml_facts(const std::string& text, const std::string& name) {
  const Tree root = tree_of(text, name);
  for (const YamlForm& form : yaml_form_table) {
    if (!form.looks(root)) continue;
    ClusterFacts facts{name, form.name};
    try {
      form.read(root, facts);
    } catch (const Error& e) {
      throw error_in(name, e.diagnostics().front().message, e.diagnostics().front().hint);
    }
    return facts;
  }
  throw error_in(name, "not a description of a cluster that is known",
                 "docs/topology-import.md says which are");
}

}  // namespace moesim
