// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/smi_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

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

int most_of_a_gpu(const std::vector<GpuPair>& pairs) {
  std::map<std::string, int> links;
  int most = 0;
  for (const GpuPair& pair : pairs) {
    for (const std::string& gpu : {pair.first, pair.second}) {
      most = std::max(most, links[gpu] += pair.links);
    }
  }
  return most;
}

bool are_alike(const NodeFacts& a, const NodeFacts& b) {
  return a.gpus == b.gpus && a.nvlink == b.nvlink && a.nvlinks == b.nvlinks && a.nics == b.nics;
}

}  // namespace

std::vector<std::string> smi_words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string gpu_named_in(const std::vector<std::string>& words) {
  const bool table = words.size() > 3 && words[0] == "|" && parse_integer<int>(words[1]);
  const bool list = words.size() > 3 && words[0] == "GPU" && words[1].back() == ':';
  std::string name;
  for (std::size_t i = 2; (table || list) && i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "On" || word == "Off" || word == "|" || word == "N/A" || word[0] == '(') break;
    name += (name.empty() ? "" : " ") + word;
  }
  const bool shown = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  return !shown || name.find_first_of("0123456789") == 0 ? "" : name;
}

void set_shape(const std::vector<GpuPair>& pairs, NvlinkShape alike, NodeFacts& node) {
  if (pairs.empty()) return;
  const auto [fewest, busiest] = std::ranges::minmax(pairs, {}, &GpuPair::links);
  const int least = fewest.links, most = busiest.links;
  node.nvlinks = most;
  if (most == 0) {
    node.nvlink = NvlinkShape::none;
  } else if (least == most) {
    node.nvlink = alike;
  } else {
    const bool two_by_two = are_two_by_two(pairs, node.gpus, most);
    node.nvlink = two_by_two ? NvlinkShape::pairs : NvlinkShape::mixed;
    if (!two_by_two) node.nvlinks = most_of_a_gpu(pairs);
  }
}

NodeFacts only_node(const std::vector<NodeFacts>& machines, const std::string& name) {
  const NodeFacts& first = machines.front();
  for (const NodeFacts& other : machines) {
    if (are_alike(first, other)) continue;
    throw error_in(
        name,
        fmt::format("its machines differ: {} GPUs of {} NVLinks and {} NICs, {} of {} and {}",
                    first.gpus, first.nvlinks, first.nics, other.gpus, other.nvlinks, other.nics),
        "nodes of a topology are alike: give the matrices of those");
  }
  return first;
}

}  // namespace moesim
