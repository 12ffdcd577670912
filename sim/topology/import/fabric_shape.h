// SPDX-License-Identifier: Apache-2.0
// Which of the fabrics that topologies know a graph of switches is.
#pragma once

#include <string>

#include "sim/topology/import/facts.h"

namespace moesim {

struct FabricShape {
  enum class Kind { one_switch, rail, leaf_spine, fat_tree };
  Kind kind = Kind::one_switch;
  int hosts = 0;
  int nics_per_host = 0;  // 0: the file does not say
  int leaves = 0;
  int least_on_leaf = 0, most_on_leaf = 0;  // hosts
  int spines = 0;                           // of a pod in a fat-tree, of a rail if rails are apart
  bool has_spines = false;                  // else the file has none and one is assumed
  int islands = 1;                          // of leaves that nothing joins, not of rails
  int leaves_per_pod = 0;
  int cores = 0;
  bool rails_joined = false;    // by common spines
  double oversubscription = 0;  // of leaves; 0: unknown
};

/// Throws Error for switches below themselves, and for a host without a leaf.
FabricShape shape_of(const FabricFacts& fabric);

}  // namespace moesim
