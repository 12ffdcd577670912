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
bool is_nic(const std::string& word) { return is_device(word, "NIC") || word.starts_with("mlx"); }

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
  const bool device = is_device(words[0], "GPU") || is_nic(words[0]);
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

/// The matrices of all machines.
std::vector<SmiMatrix> matrices_in(const std::string& text, const std::string& name) {
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
      SmiMatrix& matrix = matrices.emplace_back();
      for (const std::string& word : words) {
        if (!is_device(word, "GPU") && !is_nic(word)) break;
        matrix.columns.push_back(word);
      }
    } else if (const auto at = of_machine.find(machine); at != of_machine.end()) {
      add_row(words, matrices[at->second], name, number);
    }
  }
  return matrices;
}

/// By the devices in the legend: "  NIC0: rdmap79s0".
std::string network_in_legend(const std::string& text) {
  std::istringstream words(text);
  std::string before, network;
  for (std::string word; network.empty() && words >> word; before = word) {
    if (!before.starts_with("NIC") || !before.ends_with(':')) continue;
    network = network_of_device(word);
  }
  return network;
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

void set_nics(const SmiMatrix& matrix, NodeFacts& node) {
  int all = 0, near = 0;
  for (std::size_t column = 0; column < matrix.columns.size(); ++column) {
    if (!is_nic(matrix.columns[column])) continue;
    ++all;
    near += std::ranges::any_of(matrix.rows, [&](const SmiMatrix::Row& row) {
      const std::string& cell = row.cells[column];
      return is_device(row.device, "GPU") && (cell == "PIX" || cell == "PXB");
    });
  }
  node.nics = near > 0 ? near : all;
  node.other_nics = all - node.nics;
}

NodeFacts node_of(const SmiMatrix& matrix, const std::string& name) {
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
  set_nics(matrix, node);
  node.sockets = static_cast<int>(numa.size());
  node.numa_gpus = has_numa_gpus(matrix);
  return node;
}

}  // namespace

ClusterFacts smi_facts(const std::string& text, const std::string& name) {
  const auto matrices = matrices_in(text, name);
  if (matrices.empty()) {
    throw error_in(name, "has no line with the columns GPU0 ...",
                   "the whole output of nvidia-smi topo -m");
  }
  ClusterFacts facts{name, "nvidia-smi topo -m"};
  std::vector<NodeFacts> machines;
  for (const SmiMatrix& matrix : matrices) machines.push_back(node_of(matrix, name));
  facts.node = only_node(machines, name);
  facts.node->network = network_in_legend(text);
  std::istringstream lines(text);
  for (std::string line; facts.node->gpu_name.empty() && std::getline(lines, line);) {
    facts.node->gpu_name = gpu_named_in(smi_words(line));
  }
  if (matrices.size() > 1) facts.hosts = static_cast<int>(matrices.size());
  return facts;
}

}  // namespace moesim
