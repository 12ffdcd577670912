// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/lower_case.h"
#include "sim/base/read_number.h"
#include "sim/topology/import/host_list.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

using SlurmPairs = std::map<std::string, std::string>;

/// "SwitchName=leaf1 Nodes=gpu[1-2]" by keys in small letters.
SlurmPairs pairs_in(const std::string& line, const std::string& file, int number) {
  SlurmPairs pairs;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw error_in(file, fmt::format("'{}' is not KEY=VALUE", word), "", number);
    }
    pairs[lower_case(word.substr(0, equals))] = word.substr(equals + 1);
  }
  return pairs;
}

class SlurmReader {
 public:
  explicit SlurmReader(const std::string& file) { facts_.file = file; }

  void read_line(const SlurmPairs& pairs, int number) {
    const auto text = [&](const char* key) {
      const auto found = pairs.find(key);
      return found == pairs.end() ? std::string() : found->second;
    };
    try {
      if (pairs.contains("switchname")) {
        const bool upper = parse_integer<int>(text("level")).value_or(0) > 0;
        add_switch(text("switchname"), text("nodes"), text("switches"), upper, number);
      } else if (pairs.contains("blockname")) {
        add_block(text("nodes"));
      } else if (!pairs.contains("blocksizes") && !pairs.contains("aggregatedblock")) {
        throw Error("a line must begin with SwitchName, BlockName or BlockSizes",
                    "topology.conf, or what scontrol show topology prints");
      }
    } catch (const Error& e) {
      const Diagnostic& d = e.diagnostics().front();
      if (d.line > 0) throw;
      throw error_in(facts_.file, d.message, d.hint, number);
    }
  }

  ClusterFacts finish() {
    facts_.form = "Slurm's topology.conf";
    if (fabric_.switches.empty() && blocks_.empty()) {
      throw error_in(facts_.file, "no switches and no blocks",
                     "lines with SwitchName or BlockName");
    }
    note_second_leaves();
    if (!fabric_.switches.empty()) facts_.fabric = std::move(fabric_);
    facts_.hosts = static_cast<int>(hosts_.size());
    if (!blocks_.empty()) {
      facts_.domains = {static_cast<int>(blocks_.size()), *std::ranges::max_element(blocks_)};
    }
    return std::move(facts_);
  }

 private:
  void add_switch(const std::string& name, const std::string& nodes, const std::string& switches,
                  bool upper, int number) {
    SwitchFacts one{expand_hosts(nodes), expand_hosts(switches)};
    if (one.hosts.empty() && one.switches.empty()) {
      throw error_in(facts_.file, fmt::format("switch '{}' has no nodes and no switches", name), "",
                     number);
    }
    hosts_.insert(one.hosts.begin(), one.hosts.end());
    if (upper && one.switches.empty()) {
      facts_.left_out.push_back("a switch above others that names none of them");
      return;
    }
    if (!fabric_.switches.emplace(name, std::move(one)).second) {
      throw error_in(facts_.file, fmt::format("switch '{}' is there twice", name), "", number);
    }
  }
  /// The topology has each host at one leaf.
  void note_second_leaves() {
    std::set<std::string> seen, twice;
    for (const auto& [name, one] : fabric_.switches) {
      if (!one.switches.empty()) continue;
      for (const std::string& host : std::set(one.hosts.begin(), one.hosts.end())) {
        if (!seen.insert(host).second) twice.insert(host);
      }
    }
    if (twice.empty()) return;
    facts_.left_out.push_back(fmt::format("the second leaf of {}, first {}",
                                          counted(twice.size(), "host"), *twice.begin()));
  }
  void add_block(const std::string& nodes) {
    const auto hosts = expand_hosts(nodes);
    if (hosts.empty()) return;
    blocks_.push_back(static_cast<int>(hosts.size()));
    hosts_.insert(hosts.begin(), hosts.end());
  }

  ClusterFacts facts_;
  FabricFacts fabric_;
  std::set<std::string> hosts_;
  std::vector<int> blocks_;
};

}  // namespace

ClusterFacts slurm_conf_facts(const std::string& text, const std::string& name) {
  SlurmReader reader(name);
  std::istringstream lines(text);
  std::string joined;
  int number = 0;
  bool began = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    const bool continues = !line.empty() && line.back() == '\\';
    if (continues) line.pop_back();
    joined += line + ' ';
    if (continues) continue;
    // What people write before a file that they post.
    began = began || joined.find('=') != std::string::npos;
    const SlurmPairs pairs = began ? pairs_in(joined, name, number) : SlurmPairs();
    if (!pairs.empty()) reader.read_line(pairs, number);
    joined.clear();
  }
  return reader.finish();
}

}  // namespace moesim
