// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/hybridep_levels.h"

namespace moesim {

DomainLevels read_domain_levels(const YamlMap& params) {
  return static_cast<DomainLevels>(params.choice("levels", {"cluster", "flat"}, 0));
}

std::vector<int> domain_workers(const RankSpace& ranks, DomainLevels levels) {
  if (levels == DomainLevels::flat || !ranks.uniform()) return {ranks.size()};
  std::vector<int> workers;
  int groups = 1;
  for (int level = 1; level < ranks.depth(); ++level) {
    if (ranks.level(level).facts().splits_hosts) break;
    workers.push_back(ranks.level(level).size() / groups);
    groups = ranks.level(level).size();
  }
  workers.push_back(ranks.size() / groups);
  return workers;
}

}  // namespace moesim
