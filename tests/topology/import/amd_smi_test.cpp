// SPDX-License-Identifier: Apache-2.0
// What AMD's tools and RCCL say of nodes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/topology/import/import.h"
#include "sim/topology/read/foreign.h"
#include "sim/topology/reader.h"
#include "tests/topology/import/imported.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// rocm-smi's table of link types between GPUs of which each `together` are joined by XGMI.
std::string rocm_table(int gpus, int together, const std::string& before_each = "") {
  const std::string rule(30, '=');
  std::string out = before_each + rule + " Link Type between two GPUs " + rule + "\n" + before_each;
  for (int gpu = 0; gpu < gpus; ++gpu) out += fmt::format("       GPU{}  ", gpu);
  out += "\n";
  for (int a = 0; a < gpus; ++a) {
    out += fmt::format("{}GPU{}   ", before_each, a);
    for (int b = 0; b < gpus; ++b) {
      out += a == b ? "0            " : a / together == b / together ? "XGMI   " : "PCIE   ";
    }
    out += "\n";
  }
  out += before_each + rule + " Numa Nodes " + rule + "\n";
  for (int gpu = 0; gpu < gpus; ++gpu) {
    out += fmt::format("{0}GPU[{1}]\t\t: (Topology) Numa Node: {2}\n", before_each, gpu,
                       gpu < gpus / 2 ? 0 : 1);
  }
  return out;
}

/// As it is printed before that table.
const std::string weights =
    "=========== ROCm System Management Interface ===========\n"
    "=========== Weight between two GPUs ===========\n"
    "       GPU0         GPU1\nGPU0   0            15\nGPU1   15           0\n";

std::string amd_topology(const std::string& text, const std::string& gpu = "") {
  const std::string topology = topology_text({parse_facts(text, "f")}, gpu);
  EXPECT_NO_THROW(parse_topology(topology, "imported")) << topology;
  return topology;
}

TEST(AmdSmi, XgmiBetweenAllPairsIsAMesh) {
  EXPECT_EQ(
      amd_topology(weights + rocm_table(8, 8)),
      R"(# Values are marked: read, stated, or assumed. moesim topology check says what to measure.
description: 1 node of 8 GPUs
source: 'f (link types of AMD''s tools)'
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 1  # assumed: the files describe one node
node:
  gpu: mi300x  # assumed: f says AMD; --gpu says which
  gpus: 8  # read: f
  nvlink:
    kind: mesh  # read: f
    bandwidth: 64 GB/s  # assumed: 1 link of 64 GB/s by data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 64 GB/s  # assumed: x16 by data sheet
    latency: 0.5 us  # assumed: per hop
)");
  EXPECT_THAT(amd_topology(rocm_table(8, 8), "mi355x"), HasSubstr("    bandwidth: 76.8 GB/s"));
}

TEST(AmdSmi, OtherShapesAreSaid) {
  EXPECT_THAT(amd_topology(rocm_table(8, 4)),
              HasSubstr("kind: switch  # assumed: f joins only some pairs; no kind does that"));
  EXPECT_THAT(amd_topology(rocm_table(4, 2)), HasSubstr("    kind: pairs  # read: f\n"));
  const std::string apart = amd_topology(rocm_table(4, 1));
  EXPECT_THAT(apart, Not(HasSubstr("nvlink")));
  EXPECT_THAT(apart, HasSubstr("    sockets: 2  # read: f\n"));
  EXPECT_THAT(amd_topology(rocm_table(1, 1)), HasSubstr("  gpus: 1  # read: f\n"));
}

TEST(AmdSmi, MachinesOfOneOutputAreHosts) {
  const std::string one = rocm_table(8, 8, "n1: "), two = rocm_table(8, 8, "n2: ");
  EXPECT_THAT(amd_topology(one + two), HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(
      import_mistake(one + rocm_table(8, 1, "n2: ")),
      HasSubstr("f: error: its machines differ: 8 GPUs of 1 NVLinks and 0 NICs, 8 of 0 and 0"));
}

TEST(AmdSmi, TablesByAddress) {
  const std::string table =
      "ACCESS TABLE:\n             0000:0d:00.0 0000:26:00.0\n"
      "0000:0d:00.0 ENABLED      DISABLED\n0000:26:00.0 DISABLED     ENABLED\n"
      "LINK TYPE TABLE:\n             0000:0d:00.0 0000:26:00.0\n"
      "0000:0d:00.0 SELF         XGMI\n0000:26:00.0 XGMI         SELF\n"
      "NUMA BW TABLE:\n             0000:0d:00.0 0000:26:00.0\n"
      "0000:0d:00.0 N/A          0-0\n0000:26:00.0 0-0          N/A\n";
  const std::string topology = amd_topology(table);
  EXPECT_THAT(topology, HasSubstr("  gpus: 2  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("    kind: mesh  # read: f\n"));
}

TEST(AmdSmi, JsonOfBothTools) {
  for (const std::string json :
       {R"({"card0": {"(Topology) Numa Node": "0"}, "system": {
"(Topology) Weight between DRM devices 0 and 1": "15",
"(Topology) Link type between DRM devices 0 and 1": "XGMI",
"(Topology) Link type between DRM devices 0 and 2": "XGMI",
"(Topology) Link type between DRM devices 1 and 2": "XGMI"}})",
        R"([{"gpu": 0, "links": [{"gpu": 0, "link_type": "SELF"}, {"gpu": 2, "link_type": "XGMI"},
{"gpu": 1, "link_type": "XGMI"}]}, {"gpu": 1, "links": [{"gpu": 0, "link_type": "XGMI"},
{"gpu": 2, "link_type": "XGMI"}]}, {"gpu": 2, "links": []}])"}) {
    const std::string topology = amd_topology(json);
    EXPECT_THAT(topology, HasSubstr("  gpus: 3  # read: f\n"));
    EXPECT_THAT(topology, HasSubstr("    kind: mesh  # read: f\n"));
  }
}

TEST(AmdSmi, WhatIsCutOffIsRefused) {
  std::string table = rocm_table(8, 8);
  EXPECT_THAT(import_mistake(table.substr(0, table.find("GPU7   "))),
              HasSubstr("f: error: rows of 7 GPUs for 8 columns"));
  EXPECT_THAT(import_mistake(table.substr(0, table.find("GPU7   ") + 20)),
              HasSubstr("f:10: error: GPU7 has 2 cells for 8 columns"));
  EXPECT_THAT(import_mistake(weights), HasSubstr("f: error: has no table of link types"));
  EXPECT_THAT(import_mistake(R"([{"gpu": 0, "links": [{"gpu": 1, "link_type": "XGMI"},
{"gpu": 2, "link_type": "XGMI"}]}])"),
              HasSubstr("f: error: 2 links for 3 GPUs"));
  EXPECT_THAT(import_mistake(R"([{"gpu": 0, "links": [{"gpu": 1, "link_type": )"),
              HasSubstr("f: error: no JSON of link types as AMD's tools write it"));
  EXPECT_EQ(name_of(foreign_form(table)), "what AMD's tools say of links");
}

TEST(AmdSmi, RcclNamesTheGpuAndXgmi) {
  std::string xml = R"(<system version="2"><cpu numaid="0" arch="x86_64">)";
  for (int gpu = 0; gpu < 4; ++gpu) {
    xml += fmt::format(
        R"(<pci busid="0000:{0}c:00.0" class="0x120000" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="{0}" sm="94" gcn="gfx942" rank="{0}" gdr="1">)",
        gpu);
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == gpu) continue;
      xml += fmt::format(R"(<xgmi target="0000:{}c:00.0" count="1" tclass="0x120000"/>)", peer);
    }
    xml += "</gpu></pci>";
  }
  const std::string topology = amd_topology(xml + "</cpu></system>");
  EXPECT_THAT(topology, HasSubstr("  gpu: mi300x  # read: f: gfx942\n  gpus: 4  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("    kind: mesh  # read: f\n    bandwidth: 64 GB/s"));
}

}  // namespace
}  // namespace moesim
