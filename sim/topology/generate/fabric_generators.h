// SPDX-License-Identifier: Apache-2.0
// The kinds of fabric. Each returns the vertices where a gateway attaches.
#pragma once

#include "sim/topology/generate/builder.h"

namespace moesim {

std::vector<int> build_switch(Builder& builder, const std::vector<Nic>& nics,
                              const std::string& prefix);
std::vector<int> build_rails(Builder& builder, const FabricSpec& spec, const std::vector<Nic>& nics,
                             int nodes, const std::string& prefix);
std::vector<int> build_leaf_spine(Builder& builder, const FabricSpec& spec,
                                  const std::vector<Nic>& nics, int nodes,
                                  const std::string& prefix);
std::vector<int> build_fat_tree(Builder& builder, const FabricSpec& spec,
                                const std::vector<Nic>& nics, int nodes, const std::string& prefix);
std::vector<int> build_dragonfly(Builder& builder, const FabricSpec& spec,
                                 const std::vector<Nic>& nics, const std::string& prefix);
std::vector<int> build_torus(Builder& builder, const FabricSpec& spec, const std::vector<Nic>& nics,
                             const std::string& prefix);

}  // namespace moesim
