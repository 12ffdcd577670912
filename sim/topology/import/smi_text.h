// SPDX-License-Identifier: Apache-2.0
// What the outputs of nvidia-smi and of AMD's tools share: a table of all pairs of GPUs per
// machine.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/import/facts.h"

namespace moesim {

std::vector<std::string> smi_words(const std::string& line);

/// The name in "|   0  NVIDIA H200   On  |" and "GPU 0: NVIDIA H200 (UUID: ...)" of nvidia-smi;
/// empty in other lines.
std::string gpu_named_in(const std::vector<std::string>& words);

/// Two GPUs, and the links between them.
struct GpuPair {
  std::string first, second;
  int links = 0;
};

/// The shape of the links of all pairs of the node's GPUs; `alike`: what it is if every pair has as
/// many.
void set_shape(const std::vector<GpuPair>& pairs, NvlinkShape alike, NodeFacts& node);

/// The node of all machines; throws unless they are alike.
NodeFacts only_node(const std::vector<NodeFacts>& machines, const std::string& name);

}  // namespace moesim
