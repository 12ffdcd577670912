// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
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

SmiMatrix matrix_in(const std::string& text, const std::string& name) {
  SmiMatrix matrix;
  std::istringstream lines(without_escapes(text));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    const bool device = is_device(words[0], "GPU") || is_nic(words[0]);
    if (matrix.columns.empty()) {
      if (!is_device(words[0], "GPU")) continue;
      for (const std::string& word : words) {
        if (!is_device(word, "GPU") && !is_nic(word)) break;
        matrix.columns.push_back(word);
      }
      continue;
    }
    if (!device || words.size() < 2 || words[1] == "=" || words[0].back() == ':') continue;
    const std::size_t cells = matrix.columns.size();
    if (words.size() < cells + 1) {
      throw error_in(
          name, fmt::format("{} has {} cells for {} columns", words[0], words.size() - 1, cells),
          "the whole output of nvidia-smi topo -m", number);
    }
    const auto begin = words.begin() + 1, end = begin + static_cast<std::ptrdiff_t>(cells);
    matrix.rows.push_back({words[0], {begin, end}, {end, words.end()}, number});
  }
  return matrix;
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

}  // namespace

ClusterFacts smi_facts(const std::string& text, const std::string& name) {
  const SmiMatrix matrix = matrix_in(text, name);
  NodeFacts node;
  std::set<std::string> numa, gpus;
  std::vector<GpuPair> pairs;
  for (const SmiMatrix::Row& row : matrix.rows) {
    if (!is_device(row.device, "GPU")) continue;
    if (!gpus.insert(row.device).second) {
      throw error_in(name, row.device + " has two rows", "the output of one nvidia-smi topo -m",
                     row.line);
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
  ClusterFacts facts{name, "nvidia-smi topo -m"};
  facts.node = node;
  return facts;
}

}  // namespace moesim
