// SPDX-License-Identifier: Apache-2.0
// How AMD's tools say that GPUs are joined: tables, one of them of link types, or JSON. Rates in
// them are of a driver's table, not of the GPU, and are not read.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/read_number.h"
#include "sim/topology/import/smi_text.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

constexpr const char* whole_output = "the whole output of rocm-smi --showtopo or amd-smi topology";

/// The table of link types of a machine, and the NUMA nodes of its GPUs.
struct LinkTable {
  std::vector<std::string> columns;  // "GPU0", or an address: "0000:0c:00.0"
  std::map<std::string, std::vector<std::string>> rows;
  std::set<std::string> numa;
};

bool is_gpu(const std::string& word) {
  if (word.starts_with("GPU")) return parse_integer<int>(word.substr(3)).has_value();
  return word.size() >= 7 && std::ranges::count(word, ':') >= 1 && word.find('.') != word.npos;
}

bool names_a_table(const std::string& line) {
  return line.find("between two GPUs") != std::string::npos ||
         line.find(" TABLE:") != std::string::npos || line.find("Numa Nodes") != std::string::npos;
}
bool names_the_link_types(const std::string& line) {
  return line.find("Link Type between two GPUs") != std::string::npos ||
         line.find("LINK TYPE TABLE:") != std::string::npos;
}

/// Tables of all machines, whose names pdsh, clush and srun -l write before each line.
class LinkTables {
 public:
  explicit LinkTables(const std::string& name) : name_(name) {}

  void add(const std::string& line, int number) {
    auto words = smi_words(line);
    if (words.empty()) return;
    std::string machine;
    if (words.size() > 1 && words[0].back() == ':') {
      machine = words[0];
      words.erase(words.begin());
    }
    if (names_a_table(line)) {
      inside_[machine] = names_the_link_types(line);
      if (inside_[machine]) tables_[machine].push_back({});
    } else if (const auto numa = line.find("Numa Node: "); numa != std::string::npos) {
      if (!tables_[machine].empty()) tables_[machine].back().numa.insert(words.back());
    } else if (inside_[machine] && is_gpu(words[0])) {
      add_words(words, tables_[machine].back(), number);
    }
  }

  std::vector<LinkTable> take() const {
    std::vector<LinkTable> all;
    for (const auto& [machine, tables] : tables_) {
      all.insert(all.end(), tables.begin(), tables.end());
    }
    return all;
  }

 private:
  void add_words(const std::vector<std::string>& words, LinkTable& table, int number) {
    if (table.columns.empty()) {
      table.columns = words;
      return;
    }
    if (words.size() != table.columns.size() + 1) {
      throw error_in(name_,
                     fmt::format("{} has {} cells for {} columns", words[0], words.size() - 1,
                                 table.columns.size()),
                     whole_output, number);
    }
    if (!table.rows.emplace(words[0], std::vector(words.begin() + 1, words.end())).second) {
      throw error_in(name_, words[0] + " has two rows", whole_output, number);
    }
  }

  std::string name_;
  std::map<std::string, std::vector<LinkTable>> tables_;  // by machine
  std::map<std::string, bool> inside_;                    // the table of link types
};

NodeFacts node_of(int gpus, const std::vector<GpuPair>& pairs) {
  NodeFacts node;
  node.gpus = gpus;
  node.amd = true;
  set_shape(pairs, NvlinkShape::mesh, node);
  return node;
}

NodeFacts node_of(const LinkTable& table, const std::string& name) {
  const std::size_t gpus = table.columns.size();
  if (gpus == 0 || table.rows.size() != gpus) {
    throw error_in(name, fmt::format("rows of {} GPUs for {} columns", table.rows.size(), gpus),
                   whole_output);
  }
  std::vector<GpuPair> pairs;
  for (std::size_t a = 0; a < gpus; ++a) {
    const auto row = table.rows.find(table.columns[a]);
    if (row == table.rows.end()) {
      throw error_in(name, fmt::format("no row of {}", table.columns[a]), whole_output);
    }
    for (std::size_t b = a + 1; b < gpus; ++b) {
      pairs.push_back({table.columns[a], table.columns[b], row->second[b] == "XGMI"});
    }
  }
  NodeFacts node = node_of(static_cast<int>(gpus), pairs);
  node.sockets = static_cast<int>(table.numa.size());
  return node;
}

using Tree = nlohmann::json;

/// rocm-smi: {"system": {"(Topology) Link type between DRM devices 0 and 1": "XGMI"}}.
void add_pairs_of_system(const Tree& root, std::vector<GpuPair>& pairs) {
  const std::string before = "(Topology) Link type between DRM devices ", between = " and ";
  for (const auto& [key, type] : root.at("system").items()) {
    const auto at = key.find(between, before.size());
    if (!key.starts_with(before) || at == std::string::npos) continue;
    pairs.push_back({key.substr(before.size(), at - before.size()), key.substr(at + between.size()),
                     type == "XGMI"});
  }
}

/// amd-smi: [{"gpu": 0, "links": [{"gpu": 1, "link_type": "XGMI"}]}], each pair from both sides.
void add_pairs_of_list(const Tree& root, std::vector<GpuPair>& pairs) {
  for (const Tree& gpu : root) {
    for (const Tree& link : gpu.at("links")) {
      const int from = gpu.at("gpu"), to = link.at("gpu");
      if (from >= to) continue;
      pairs.push_back({std::to_string(from), std::to_string(to), link.at("link_type") == "XGMI"});
    }
  }
}

NodeFacts node_of_json(const std::string& text, const std::string& name) {
  std::vector<GpuPair> pairs;
  try {
    const Tree root = Tree::parse(text);
    root.is_array() ? add_pairs_of_list(root, pairs) : add_pairs_of_system(root, pairs);
  } catch (const Tree::exception&) {
    throw error_in(name, "no JSON of link types as AMD's tools write it", whole_output);
  }
  std::set<std::string> gpus;
  for (const GpuPair& pair : pairs) gpus.insert({pair.first, pair.second});
  if (pairs.empty() || gpus.size() * (gpus.size() - 1) / 2 != pairs.size()) {
    throw error_in(name, fmt::format("{} links for {} GPUs", pairs.size(), gpus.size()),
                   whole_output);
  }
  return node_of(static_cast<int>(gpus.size()), pairs);
}

}  // namespace

ClusterFacts amd_smi_facts(const std::string& text, const std::string& name) {
  ClusterFacts facts{name, "link types of AMD's tools"};
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
    facts.node = node_of_json(text, name);
    return facts;
  }
  LinkTables tables(name);
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) tables.add(line, ++number);
  std::vector<NodeFacts> machines;
  for (const LinkTable& table : tables.take()) machines.push_back(node_of(table, name));
  if (machines.empty()) throw error_in(name, "has no table of link types", whole_output);
  facts.node = only_node(machines, name);
  if (machines.size() > 1) facts.hosts = static_cast<int>(machines.size());
  return facts;
}

}  // namespace moesim
