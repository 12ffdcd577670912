// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/topology/import/smi_text.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

bool is_device(const std::string& word, const std::string& kind) {
  return word.size() > kind.size() && word.starts_with(kind) &&
         word.find_first_not_of("0123456789", kind.size()) == std::string::npos;
}

/// How two devices are joined: "NV18", "PIX", "SYS", "X".
struct SmiMatrix {
  std::vector<std::string> columns;  // devices
  struct Row {
    std::string device;
    std::vector<std::string> cells, rest;  // rest: affinities
    int line = 0;
  };
  std::vector<Row> rows;
};

/// NICs have names of their own in old versions: mlx5_0.
bool is_nic(const std::string& word) {
  return is_device(word, "NIC") || word.starts_with("mlx") || word.starts_with("hfi") ||
         !network_of_device(word).empty();
}

/// Whether words name columns; in rows the second word is how two devices are joined.
bool are_columns(const std::vector<std::string>& words) {
  if (!is_device(words[0], "GPU")) return false;
  return words.size() < 2 || is_device(words[1], "GPU") || is_nic(words[1]) || words[1] == "CPU";
}

/// Answers of nvidia-smi topo -p2p.
bool is_answer(const std::string& cell) {
  constexpr std::array<const char*, 8> answers = {"OK", "NS", "CNS", "TNS", "GNS", "DR", "U", "?"};
  return std::ranges::find(answers, cell) != answers.end();
}

void add_row(const std::vector<std::string>& words, SmiMatrix& matrix, const std::string& name,
             int line) {
  const bool device = is_device(words[0], "GPU") || is_nic(words[0]) ||
                      std::ranges::find(matrix.columns, words[0]) != matrix.columns.end();
  if (!device || words.size() < 2 || words[1] == "=" || words[0].back() == ':') return;
  const std::size_t cells = matrix.columns.size();
  if (words.size() < cells + 1) {
    throw error_in(name,
                   fmt::format("{} has {} cells for {} columns", words[0], words.size() - 1, cells),
                   "the whole output of nvidia-smi topo -m", line);
  }
  const auto begin = words.begin() + 1, end = begin + static_cast<std::ptrdiff_t>(cells);
  if (std::any_of(begin, end, is_answer)) {
    throw error_in(name, "is of nvidia-smi topo -p2p, which does not say how GPUs are joined",
                   "nvidia-smi topo -m does", line);
  }
  matrix.rows.push_back({words[0], {begin, end}, {end, words.end()}, line});
}

/// Takes the machine off a line, as pdsh, clush and srun -l write it: "n1: GPU0 ...".
std::string machine_in(std::vector<std::string>& words) {
  if (words.size() < 2 || words[0].back() != ':') return "";
  if (!is_device(words[1], "GPU") && !is_nic(words[1])) return "";
  const std::string machine = words[0];
  words.erase(words.begin());
  return machine;
}

/// First words of lines, behind the name of a machine.
std::set<std::string> heads_of_rows(const std::string& text) {
  std::set<std::string> heads;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto words = smi_words(line);
    if (words.size() < 2) continue;
    heads.insert(words[words[0].back() == ':' ? 1 : 0]);
  }
  return heads;
}

/// The devices of a line of columns: all before the affinities that head a row, whatever their
/// makers name them.
std::vector<std::string> devices_in(const std::vector<std::string>& words,
                                    const std::set<std::string>& heads, const std::string& name,
                                    int line) {
  std::vector<std::string> devices;
  const bool has_affinities = std::ranges::find(words, "CPU") != words.end();
  for (const std::string& word : words) {
    if (word == "CPU") break;
    if (!is_device(word, "GPU") && !is_nic(word) && !heads.contains(word)) {
      if (!has_affinities) break;
      throw error_in(name, fmt::format("the column '{}' has no row", word),
                     "the whole output of nvidia-smi topo -m", line);
    }
    devices.push_back(word);
  }
  return devices;
}

/// The matrices of all machines.
std::vector<SmiMatrix> matrices_in(const std::string& text, const std::string& name) {
  const std::set<std::string> heads = heads_of_rows(text);
  std::vector<SmiMatrix> matrices;
  std::map<std::string, std::size_t> of_machine;  // its last one
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    auto words = smi_words(line);
    if (words.empty()) continue;
    const std::string machine = machine_in(words);
    if (are_columns(words)) {
      of_machine[machine] = matrices.size();
      matrices.emplace_back().columns = devices_in(words, heads, name, number);
    } else if (const auto at = of_machine.find(machine); at != of_machine.end()) {
      add_row(words, matrices[at->second], name, number);
    }
  }
  return matrices;
}

/// Names of devices by the legend: "  NIC0: rdmap79s0".
using NicNames = std::map<std::string, std::string>;

NicNames legend_in(const std::string& text) {
  std::istringstream words(text);
  NicNames names;
  std::string before;
  for (std::string word; words >> word; before = word) {
    if (!before.starts_with("NIC") || !before.ends_with(':')) continue;
    names.emplace(before.substr(0, before.size() - 1), word);
  }
  return names;
}

/// Links of NVLink that a cell counts; 0: another path.
int nvlinks_of(const std::string& cell) {
  if (!is_device(cell, "NV") || cell.size() > 5) return 0;
  return std::stoi(cell.substr(2));
}

/// Through a switch every pair has all links of a GPU; those of a mesh are shared out.
NvlinkShape shape_of_all_alike(const std::vector<GpuPair>& pairs, int gpus) {
  const bool many = !pairs.empty() && pairs.front().links >= 8;
  return many || gpus > 4 ? NvlinkShape::behind_switch : NvlinkShape::mesh;
}

/// The NUMA node of a row: the second affinity.
std::string numa_of(const SmiMatrix::Row& row) {
  return row.rest.size() > 1 ? row.rest[1] : row.rest.empty() ? "" : row.rest[0];
}

/// Whether the column "GPU NUMA ID", the third affinity, has a number for all GPUs.
bool has_numa_gpus(const SmiMatrix& matrix) {
  return std::ranges::all_of(matrix.rows, [](const SmiMatrix::Row& row) {
    return !is_device(row.device, "GPU") ||
           (row.rest.size() == 3 &&
            row.rest[2].find_first_not_of("0123456789") == std::string::npos);
  });
}

/// NICs near a GPU, or all if none is; their network if all of them are of one.
void set_nics(const SmiMatrix& matrix, const NicNames& legend, NodeFacts& node) {
  std::vector<std::string> all, near;
  for (std::size_t column = 0; column < matrix.columns.size(); ++column) {
    const std::string& nic = matrix.columns[column];
    if (is_device(nic, "GPU")) continue;
    all.push_back(nic);
    const bool is_near = std::ranges::any_of(matrix.rows, [&](const SmiMatrix::Row& row) {
      const std::string& cell = row.cells[column];
      return is_device(row.device, "GPU") && (cell == "PIX" || cell == "PXB");
    });
    if (is_near) near.push_back(nic);
  }
  const std::vector<std::string>& used = near.empty() ? all : near;
  std::set<std::string> networks;
  for (const std::string& nic : used) {
    const auto named = legend.find(nic);
    networks.insert(network_of_device(named == legend.end() ? nic : named->second));
  }
  node.nics = static_cast<int>(used.size());
  node.other_nics = static_cast<int>(all.size() - used.size());
  if (networks.size() == 1) node.network = *networks.begin();
}

NodeFacts node_of(const SmiMatrix& matrix, const NicNames& legend, const std::string& name) {
  NodeFacts node;
  std::set<std::string> numa, gpus;
  std::vector<GpuPair> pairs;
  for (const SmiMatrix::Row& row : matrix.rows) {
    if (!is_device(row.device, "GPU")) continue;
    if (!gpus.insert(row.device).second) {
      throw error_in(name, row.device + " has two rows",
                     "the output of nvidia-smi topo -m of each machine", row.line);
    }
    ++node.gpus;
    if (const std::string n = numa_of(row); !n.empty() && n != "N/A") numa.insert(n);
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      if (!is_device(matrix.columns[c], "GPU") || row.cells[c] == "X") continue;
      if (matrix.columns[c] > row.device) {
        pairs.push_back({row.device, matrix.columns[c], nvlinks_of(row.cells[c])});
      }
    }
  }
  const auto columns = std::ranges::count_if(
      matrix.columns, [](const std::string& column) { return is_device(column, "GPU"); });
  if (node.gpus == 0 || node.gpus != columns) {
    throw error_in(name, fmt::format("rows of {} GPUs for {} columns", node.gpus, columns),
                   "the whole output of nvidia-smi topo -m");
  }
  set_shape(pairs, shape_of_all_alike(pairs, node.gpus), node);
  set_nics(matrix, legend, node);
  node.sockets = static_cast<int>(numa.size());
  node.numa_gpus = has_numa_gpus(matrix);
  return node;
}

/// Without "[4m" and "[0m", of which a copy has lost the character that makes them marks.
std::string without_styles(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = text.find_first_not_of("0123456789;", at + 1);
    if (text[at] == '[' && end != text.npos && text[end] == 'm') {
      at = end;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

}  // namespace

ClusterFacts smi_facts(const std::string& copied, const std::string& name) {
  const std::string text = without_styles(copied);
  const auto matrices = matrices_in(text, name);
  if (matrices.empty()) {
    throw error_in(name, "has no line with the columns GPU0 ...",
                   "the whole output of nvidia-smi topo -m");
  }
  ClusterFacts facts{name, "nvidia-smi topo -m"};
  std::vector<NodeFacts> machines;
  const NicNames legend = legend_in(text);
  for (const SmiMatrix& matrix : matrices) machines.push_back(node_of(matrix, legend, name));
  facts.node = only_node(machines, name);
  std::istringstream lines(text);
  for (std::string line; facts.node->gpu_name.empty() && std::getline(lines, line);) {
    facts.node->gpu_name = gpu_named_in(smi_words(line));
  }
  if (matrices.size() > 1) facts.hosts = static_cast<int>(matrices.size());
  return facts;
}

}  // namespace moesim
