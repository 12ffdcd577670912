// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/yaml_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/error.h"
#include "sim/topology/import/host_list.h"
#include "sim/topology/import/yaml_tree.h"

namespace moesim {
namespace {

/// "node[01-02]", or a list of such.
std::vector<std::string> hosts_at(const YamlTree& tree, const char* key) {
  const YamlTree& value = at_key(tree, key);
  if (value.is_string()) return expand_hosts(value.get<std::string>());
  std::vector<std::string> hosts;
  if (!value.is_array()) return hosts;
  for (const YamlTree& item : value) {
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

/// Slurm: a list of topologies, of which the default counts, else the first.
void read_slurm(const YamlTree& root, ClusterFacts& facts) {
  const YamlTree* chosen = &root.front();
  for (const YamlTree& one : root) {
    const YamlTree& standard = at_key(one, "cluster_default");
    if (standard.is_boolean() && standard.get<bool>()) chosen = &one;
  }
  if (root.size() > 1) {
    facts.left_out.push_back(fmt::format("{} other topologies of the file", root.size() - 1));
  }
  FabricFacts fabric;
  for (const YamlTree& one : at_key(at_key(*chosen, "tree"), "switches")) {
    add_switch(fabric, text_at(one, "switch"), {hosts_at(one, "nodes"), hosts_at(one, "children")});
  }
  facts.hosts = count_hosts(fabric);
  if (!fabric.switches.empty()) facts.fabric = std::move(fabric);
  std::map<std::string, int> blocks;
  for (const YamlTree& one : at_key(at_key(*chosen, "block"), "blocks")) {
    const auto hosts = hosts_at(one, "nodes");
    blocks[text_at(one, "block")] = static_cast<int>(hosts.size());
    if (!facts.fabric) facts.hosts += static_cast<int>(hosts.size());
  }
  set_domains(facts, blocks);
  if (!facts.fabric && blocks.empty()) throw Error("neither a tree of switches nor blocks");
}

/// topograph's models: switches, and capacity blocks of nodes that may share an NVLink domain.
void read_topograph(const YamlTree& root, ClusterFacts& facts) {
  FabricFacts fabric;
  std::map<std::string, std::vector<std::string>> nodes_of;
  std::map<std::string, int> domains;
  for (const YamlTree& block : at_key(root, "capacity_blocks")) {
    auto& nodes = nodes_of[text_at(block, "name")] = hosts_at(block, "nodes");
    const std::string domain = text_at(block, "nvlink");
    if (!domain.empty()) domains[domain] += static_cast<int>(nodes.size());
    if (facts.node || text_at(block, "type").empty()) continue;
    facts.node.emplace().gpu_name = text_at(block, "type");
  }
  for (const YamlTree& one : at_key(root, "switches")) {
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

struct YamlForm {
  const char* name;
  bool (*looks)(const YamlTree& root);
  void (*read)(const YamlTree& root, ClusterFacts& facts);
};

bool has_slurm(const YamlTree& root) {
  return root.is_array() && !root.empty() && root.front().is_object() &&
         root.front().contains("topology") &&
         (root.front().contains("tree") || root.front().contains("block") ||
          root.front().contains("flat"));
}
bool has_nodes(const YamlTree& root) {
  const std::string kind = text_at(root, "kind");
  return kind == "Node" || kind == "NodeList" || (kind == "List" && root.contains("items"));
}
bool has_switches(const YamlTree& root) {
  return at_key(root, "switches").is_array() && !root.contains("vertices");
}

constexpr std::array<YamlForm, 3> yaml_form_table = {
    {{"Slurm's topology.yaml", has_slurm, read_slurm},
     {"a Kubernetes list of nodes", has_nodes, kubernetes_nodes},
     {"topograph's model", has_switches, read_topograph}}};

}  // namespace

/// Domains without hosts do not count: files name blocks that are empty at the moment.
void set_domains(ClusterFacts& facts, const std::map<std::string, int>& hosts_of) {
  int domains = 0, most = 0;
  for (const auto& [name, hosts] : hosts_of) {
    domains += hosts > 0 ? 1 : 0;
    most = std::max(most, hosts);
  }
  if (domains > 0) facts.domains = {domains, most};
}

ClusterFacts yaml_facts(const std::string& text, const std::string& name) {
  const YamlTree root = yaml_tree(text, name);
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
