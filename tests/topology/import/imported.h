// SPDX-License-Identifier: Apache-2.0
// Imported descriptions, as tests look at them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/topology/import/import.h"
#include "sim/topology/reader.h"
#include "tests/error_of.h"

namespace moesim {

/// The topology of files f0, f1, ..., which can be read.
inline std::string imported(const std::vector<std::string>& texts, const std::string& gpu = "") {
  std::vector<ClusterFacts> facts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    facts.push_back(parse_facts(texts[i], "f" + std::to_string(i)));
  }
  const std::string text = topology_text(facts, gpu);
  EXPECT_NO_THROW(parse_topology(text, "imported")) << text;
  return text;
}

/// What is wrong with the file f; empty: nothing.
inline std::string import_mistake(const std::string& text) {
  return error_of([&] { topology_text({parse_facts(text, "f")}, ""); });
}

inline const std::string tree_of_slurm =
    "# two leaves\nSwitchName=leaf1 Nodes=gpu[001-012]\nSwitchName=leaf2 Nodes=gpu[013-020]\n"
    "SwitchName=spine Switches=leaf[1-2]\n";
/// As `nvidia-smi topo -m` prints it.
inline const std::string four_gpus =
    "        GPU0    GPU1    GPU2    GPU3    NIC0    NIC1    CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV18    NV18    NV18    PIX     SYS     0-47    0\n"
    "GPU1    NV18     X      NV18    NV18    NODE    SYS     0-47    0\n"
    "GPU2    NV18    NV18     X      NV18    SYS     PIX     48-95   1\n"
    "GPU3    NV18    NV18    NV18     X      SYS     NODE    48-95   1\n"
    "NIC0    PIX     NODE    SYS     SYS      X      SYS\n"
    "NIC1    SYS     SYS     PIX     NODE    SYS      X\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n";

/// The same of four GPUs whose cells are given.
inline std::string matrix_of_four(const std::vector<std::string>& rows) {
  std::string text = "     GPU0 GPU1 GPU2 GPU3 CPU Affinity\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += "GPU" + std::to_string(r) + " " + rows[r] + " 0-7\n";
  }
  return text;
}

}  // namespace moesim
