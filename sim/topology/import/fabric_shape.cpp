// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/fabric_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/base/error.h"

namespace moesim {
namespace {

using SwitchNames = std::set<std::string>;

/// The links between switches, without direction.
std::map<std::string, SwitchNames> neighbours_of(const FabricFacts& fabric) {
  std::map<std::string, SwitchNames> neighbours;
  for (const auto& [name, one] : fabric.switches) {
    for (const std::string& other : one.switches) {
      if (!fabric.switches.contains(other) && fabric.is_tree) {
        throw Error(
            fmt::format("switch '{}' is below '{}', but nothing says what it is", other, name));
      }
      neighbours[name].insert(other);
      neighbours[other].insert(name);
    }
  }
  return neighbours;
}

/// Switches with hosts at level 1; others one above the nearest below, cut off at `most`.
std::map<std::string, int> levels_of(const FabricFacts& fabric,
                                     const std::map<std::string, SwitchNames>& neighbours) {
  std::map<std::string, int> levels;
  SwitchNames frontier;
  for (const auto& [name, one] : fabric.switches) {
    if (one.hosts.empty()) continue;
    levels[name] = 1;
    frontier.insert(name);
  }
  for (int level = 2; !frontier.empty(); ++level) {
    SwitchNames next;
    for (const std::string& name : frontier) {
      const auto known = neighbours.find(name);
      if (known == neighbours.end()) continue;
      for (const std::string& other : known->second) {
        if (levels.try_emplace(other, level).second) next.insert(other);
      }
    }
    frontier = std::move(next);
  }
  return levels;
}

/// Throws Error if a tree bites its own tail.
void check_tree(const FabricFacts& fabric) {
  std::map<std::string, int> waiting;  // switches above that are not yet seen
  for (const auto& [name, one] : fabric.switches) {
    waiting.try_emplace(name, 0);
    for (const std::string& lower : one.switches) ++waiting[lower];
  }
  std::vector<std::string> tops;
  for (const auto& [name, above] : waiting) {
    if (above == 0) tops.push_back(name);
  }
  std::size_t seen = 0;
  for (; !tops.empty(); ++seen) {
    const std::string name = tops.back();
    tops.pop_back();
    const auto known = fabric.switches.find(name);
    if (known == fabric.switches.end()) continue;
    for (const std::string& lower : known->second.switches) {
      if (--waiting[lower] == 0) tops.push_back(lower);
    }
  }
  if (seen < waiting.size()) throw Error("a switch is below itself");
}

void set_hosts(const FabricFacts& fabric, FabricShape& shape) {
  std::map<std::string, std::vector<std::string>> leaves_of;  // by host, once per link
  shape.least_on_leaf = static_cast<int>(1e9);
  for (const auto& [name, one] : fabric.switches) {
    if (one.hosts.empty()) continue;
    ++shape.leaves;
    const int hosts = static_cast<int>(SwitchNames(one.hosts.begin(), one.hosts.end()).size());
    shape.least_on_leaf = std::min(shape.least_on_leaf, hosts);
    shape.most_on_leaf = std::max(shape.most_on_leaf, hosts);
    for (const std::string& host : one.hosts) leaves_of[host].push_back(name);
  }
  if (leaves_of.empty()) throw Error("no switch has hosts");
  shape.hosts = static_cast<int>(leaves_of.size());
  std::size_t most = 0;
  bool apart = true;  // every link of a host at another leaf
  for (const auto& [host, leaves] : leaves_of) {
    most = std::max(most, leaves.size());
    apart &= SwitchNames(leaves.begin(), leaves.end()).size() == leaves.size();
  }
  if (!fabric.is_tree) shape.nics_per_host = static_cast<int>(most);
  const bool rails = !fabric.is_tree && most > 1 && apart;
  shape.kind = rails               ? FabricShape::Kind::rail
               : shape.leaves == 1 ? FabricShape::Kind::one_switch
                                   : FabricShape::Kind::leaf_spine;
}

void set_oversubscription(const FabricFacts& fabric, FabricShape& shape) {
  double down = 0, up = 0;
  for (const auto& [name, one] : fabric.switches) {
    if (one.hosts.empty()) continue;
    down += one.host_rate.value;
    up += one.switch_rate.value;
  }
  if (!fabric.is_tree && down > 0 && up > 0) shape.oversubscription = down / up;
}

/// How many groups the leaves make that switches up to a level join.
int groups_below(int most_level, const std::map<std::string, int>& levels,
                 const std::map<std::string, SwitchNames>& neighbours) {
  SwitchNames seen;
  int pods = 0;
  for (const auto& [name, level] : levels) {
    if (level != 1 || seen.contains(name)) continue;
    ++pods;
    std::vector<std::string> open = {name};
    seen.insert(name);
    while (!open.empty()) {
      const std::string at = open.back();
      open.pop_back();
      const auto known = neighbours.find(at);
      if (known == neighbours.end()) continue;
      for (const std::string& other : known->second) {
        if (levels.at(other) <= most_level && seen.insert(other).second) open.push_back(other);
      }
    }
  }
  return pods;
}

void set_upper_levels(const FabricFacts& fabric, FabricShape& shape) {
  const auto neighbours = neighbours_of(fabric);
  const auto levels = levels_of(fabric, neighbours);
  int spines = 0, cores = 0;
  for (const auto& [name, level] : levels) {
    spines += level == 2;
    cores += level > 2;
  }
  const int pods = groups_below(2, levels, neighbours);  // which cores join
  shape.has_spines = spines > 0;
  shape.rails_joined = shape.kind == FabricShape::Kind::rail && pods == 1 && spines > 0;
  if (shape.kind == FabricShape::Kind::rail) {
    const int rails = std::max(1, shape.nics_per_host);
    shape.spines = std::max(1, shape.rails_joined ? spines : spines / rails);
    return;
  }
  shape.islands = groups_below(std::numeric_limits<int>::max(), levels, neighbours);
  shape.spines = std::max(1, spines);
  if (cores == 0 || pods < 2 || shape.kind == FabricShape::Kind::one_switch) return;
  shape.kind = FabricShape::Kind::fat_tree;
  shape.spines = std::max(1, spines / pods);
  shape.leaves_per_pod = (shape.leaves + pods - 1) / pods;
  shape.cores = (cores + shape.spines - 1) / shape.spines * shape.spines;
}

/// Slurm repeats at upper switches the hosts of all that are below.
FabricFacts without_repeats(FabricFacts fabric) {
  SwitchNames on_leaves;
  for (const auto& [name, one] : fabric.switches) {
    if (one.switches.empty()) on_leaves.insert(one.hosts.begin(), one.hosts.end());
  }
  for (auto& [name, one] : fabric.switches) {
    if (one.switches.empty()) continue;
    std::erase_if(one.hosts, [&](const std::string& host) { return on_leaves.contains(host); });
  }
  return fabric;
}

}  // namespace

FabricShape shape_of(const FabricFacts& stated) {
  const FabricFacts fabric = stated.is_tree ? without_repeats(stated) : stated;
  FabricShape shape;
  set_hosts(fabric, shape);
  if (fabric.is_tree) check_tree(fabric);
  set_upper_levels(fabric, shape);
  set_oversubscription(fabric, shape);
  return shape;
}

}  // namespace moesim
