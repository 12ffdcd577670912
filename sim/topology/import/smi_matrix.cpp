// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

/// What terminals do with text, such as underlining, left out.
std::string without_escapes(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      while (i < text.size() && !(text[i] >= '@' && text[i] <= '~' && text[i] != '[')) ++i;
      continue;
    }
    out += text[i];
  }
  return out;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

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
  std::istringstream lines(without_escapes(text));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    auto words = words_of(line);
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

/// Links of NVLink that a cell counts; 0: another path.
int nvlinks_of(const std::string& cell) {
  if (!is_device(cell, "NV") || cell.size() > 5) return 0;
  return std::stoi(cell.substr(2));
}

/// Two GPUs, and the NVLinks between them.
struct GpuPair {
  std::string first, second;
  int links = 0;
};

/// Whether every GPU is joined to exactly one other one, all of them by as many links.
bool are_two_by_two(const std::vector<GpuPair>& pairs, int gpus, int links) {
  std::set<std::string> joined;
  for (const GpuPair& pair : pairs) {
    if (pair.links == 0) continue;
    const bool first_peer = joined.insert(pair.first).second && joined.insert(pair.second).second;
    if (!first_peer || pair.links != links) return false;
  }
  return std::ssize(joined) == gpus;
}

/// By the links of all pairs of GPUs.
void set_nvlink(const std::vector<GpuPair>& pairs, NodeFacts& node) {
  if (pairs.empty()) return;
  const auto [fewest, busiest] = std::ranges::minmax(pairs, {}, &GpuPair::links);
  const int least = fewest.links, most = busiest.links;
  node.nvlinks = most;
  if (most == 0) {
    node.nvlink = NvlinkShape::none;
  } else if (least == most) {
    // Through a switch every pair has all links of a GPU; those of a mesh are shared out.
    node.nvlink = most >= 8 || node.gpus > 4 ? NvlinkShape::behind_switch : NvlinkShape::mesh;
  } else {
    const bool two_by_two = are_two_by_two(pairs, node.gpus, most);
    node.nvlink = two_by_two ? NvlinkShape::pairs : NvlinkShape::mixed;
  }
}

/// The NUMA node of a row: the second affinity.
std::string numa_of(const SmiMatrix::Row& row) {
  return row.rest.size() > 1 ? row.rest[1] : row.rest.empty() ? "" : row.rest[0];
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
  set_nvlink(pairs, node);
  set_nics(matrix, node);
  node.sockets = static_cast<int>(numa.size());
  return node;
}

/// The machines must be alike.
void check_alike(const NodeFacts& first, const NodeFacts& other, const std::string& name) {
  if (first.gpus == other.gpus && first.nvlink == other.nvlink && first.nvlinks == other.nvlinks &&
      first.nics == other.nics) {
    return;
  }
  throw error_in(
      name,
      fmt::format("its machines differ: {} GPUs of {} NVLinks and {} NICs, {} of {} and {}",
                  first.gpus, first.nvlinks, first.nics, other.gpus, other.nvlinks, other.nics),
      "nodes of a topology are alike: give the matrices of those");
}

}  // namespace

ClusterFacts smi_facts(const std::string& text, const std::string& name) {
  const auto matrices = matrices_in(text, name);
  if (matrices.empty()) {
    throw error_in(name, "has no line with the columns GPU0 ...",
                   "the whole output of nvidia-smi topo -m");
  }
  ClusterFacts facts{name, "nvidia-smi topo -m"};
  for (const SmiMatrix& matrix : matrices) {
    const NodeFacts node = node_of(matrix, name);
    if (facts.node) check_alike(*facts.node, node, name);
    facts.node = node;
  }
  if (matrices.size() > 1) facts.hosts = static_cast<int>(matrices.size());
  return facts;
}

}  // namespace moesim
