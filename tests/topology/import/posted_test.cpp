// SPDX-License-Identifier: Apache-2.0
// Descriptions in the forms in which people post them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/topology/import/import.h"
#include "sim/topology/reader.h"
#include "tests/topology/import/imported.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string posted_topology(const std::string& text, const std::string& gpu = "") {
  return topology_text({parse_facts(text, "f")}, gpu);
}

TEST(PostedTopology, UpperSwitchesThatRepeatHostsAreNotLeaves) {
  const std::string text = posted_topology(
      "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-3]\n"
      "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[4-7]\n"
      "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=tux[0-7] Switches=s[0-1]\n");
  EXPECT_THAT(text, HasSubstr("nodes: 8  # read: f\n"));
  EXPECT_THAT(text, HasSubstr("  nodes_per_leaf: 4  # read: f\n  spines: 1  #"));
}

TEST(PostedTopology, HostsOnlyOfAnUpperSwitchAreKept) {
  const std::string text =
      posted_topology("SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Switches=s0 Nodes=n[0-3],login\n");
  EXPECT_THAT(text, HasSubstr("nodes: 5  # read: f\n"));
  EXPECT_THAT(text, HasSubstr("leaves have 1 to 4 hosts"));
}

TEST(PostedTopology, UpperSwitchesWithoutSwitchesBelowAreLeftOut) {
  const std::string text = posted_topology(
      "SwitchName=s0 Level=0 Nodes=n[0-3]\nSwitchName=s1 Level=0 Nodes=n[4-7]\n"
      "SwitchName=top Level=1 Nodes=n[0-7]\n");
  EXPECT_THAT(text, HasSubstr("# left out: f: a switch above others that names none of them\n"));
  EXPECT_THAT(text, HasSubstr("  nodes_per_leaf: 4  # read: f\n"));
}

TEST(PostedTopology, AggregatedBlocksAddNoHosts) {
  const std::string text = posted_topology(
      "BlockName=b1 BlockIndex=0 Nodes=n[001-018] BlockSize=18\n"
      "BlockName=b2 BlockIndex=1 Nodes=n[019-036] BlockSize=18\n"
      "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[001-036] BlockSize=36\n");
  EXPECT_THAT(text, HasSubstr("nodes: 2  # read: f: 36 hosts in NVLink domains of 18\n"));
}

TEST(PostedTopology, NvlinkOfSeveralHostsIsARackUnlessAFileSaysWhich) {
  const std::string blocks = "BlockName=b1 Nodes=n[1-18]\nBlockName=b2 Nodes=n[19-36]\n";
  EXPECT_THAT(
      posted_topology(blocks),
      HasSubstr("  gpu: gb200-training  # assumed: NVLink joins 18 hosts, as in racks; --gpu says "
                "which\n  gpus: 72  # assumed: 4 of each host, as in racks of NVL72\n"));
  EXPECT_THAT(posted_topology(blocks, "gb300-training"), HasSubstr("  gpus: 72  # assumed"));
  EXPECT_THAT(posted_topology(blocks, "h100-measured"),
              HasSubstr("  gpus: 144  # assumed: no file says\n"));
}

TEST(PostedTopology, BareInfinibandDevicesAreNics) {
  const auto node = [](const char* nic) {
    return fmt::format(R"(<system version="1"><cpu numaid="0"><pci class="0x060400">
<pci busid="1" class="0x030200" link_speed="16 GT/s" link_width="16"/><pci busid="2" class="{0}"/>
<pci busid="3" class="0x030200" link_speed="16 GT/s" link_width="16"/><pci busid="4" class="{0}"/>
</pci><pci busid="5" class="0x020000"/></cpu></system>)",
                       nic);
  };
  const std::string one_more = "# left out: f: 1 more NIC, slower or farther from the GPUs\n";
  EXPECT_THAT(
      posted_topology(node("0x020700")),
      AllOf(
          HasSubstr("    count: 2  # read: f\n    bandwidth: 25 GB/s  # assumed: usual with"),
          HasSubstr("  gpu: a100-measured  # assumed: PCIe of this rate in f; --gpu says which\n"),
          HasSubstr(one_more)));
  EXPECT_THAT(posted_topology(node("0x020000")),
              AllOf(HasSubstr("    count: 2  # read: f\n"), HasSubstr(one_more)));
  EXPECT_THAT(posted_topology(node("0x010802")), Not(HasSubstr("  nics:\n")));
}

const std::string half_of_dgx1 =
    "      GPU0 GPU1 GPU2 GPU3 CPU Affinity\nGPU0   X   NV1  NV2  SYS  0-19\n"
    "GPU1  NV1   X   SYS  NV2  0-19\nGPU2  NV2  SYS   X   NV1  0-19\nGPU3  SYS  NV2  NV1   X   "
    "0-19\n";

TEST(PostedTopology, LinksToSomeGpusAddUpForTheAssumedSwitch) {
  EXPECT_THAT(posted_topology(half_of_dgx1),
              HasSubstr("    kind: switch  # assumed: f joins only some pairs; no kind does that\n"
                        "    bandwidth: 75 GB/s  # assumed: 3 links of 25 GB/s by data sheet\n"));
}

std::string dgx1_of_nccl(const char* sm) {
  std::string xml = R"(<system version="1"><cpu numaid="0">)";
  for (const char* gpu : {"a", "b", "c", "d"}) {
    xml += fmt::format(R"(<pci busid="{}" class="0x030200"><gpu dev="0" sm="{}">)", gpu, sm);
    for (const int links : {1, 1, 2, 2}) {
      xml += fmt::format(R"(<nvlink target="x" count="{}" tclass="0x030200"/>)", links);
    }
    xml += "</gpu></pci>";
  }
  return xml + "</cpu></system>";
}

TEST(PostedTopology, ComputeCapabilityNamesTheDeviceOfUnknownFamilies) {
  const std::string text = posted_topology(dgx1_of_nccl("70"));
  EXPECT_THAT(text,
              HasSubstr("  gpu: v100  # assumed: f says compute capability 7.0, 6 NVLinks\n"));
  EXPECT_THAT(text, HasSubstr("    bandwidth: 150 GB/s  # assumed: 6 links of 25 GB/s"));
  EXPECT_THAT(posted_topology(dgx1_of_nccl("60")), HasSubstr("  gpu: 'p100'  # assumed: f says"));
  EXPECT_THAT(posted_topology(dgx1_of_nccl("110")), HasSubstr("  gpu: 'sm110'  # assumed: f says"));
}

TEST(PostedTopology, ASlowNicCountsIfGpusWouldLackIt) {
  const auto node = [](int fast, const std::string& more) {
    std::string xml = R"(<system version="1"><cpu numaid="0">)";
    for (int i = 0; i < 4; ++i) xml += R"(<pci class="0x030200"><gpu sm="90"/></pci>)";
    for (int i = 0; i < fast; ++i) xml += R"(<nic><net name="mlx5_0" speed="400000"/></nic>)";
    return posted_topology(xml + more + "</cpu></system>");
  };
  const std::string slow = R"(<nic><net name="mlx5_9" speed="100000"/></nic>)";
  EXPECT_THAT(node(3, slow), AllOf(HasSubstr("    count: 4  # read: f\n    bandwidth: 50 GB/s"),
                                   HasSubstr("# left out: f: that 1 of 4 NICs is slower than 50 "
                                             "GB/s\n")));
  const std::string one_more = "# left out: f: 1 more NIC, slower or farther from the GPUs\n";
  EXPECT_THAT(node(4, slow), AllOf(HasSubstr("    count: 4  # read: f\n"), HasSubstr(one_more)));
  EXPECT_THAT(node(2, slow), AllOf(HasSubstr("    count: 2  # read: f\n"), HasSubstr(one_more)));
  const std::string of_hosts = R"(<nic><net name="eth0" speed="10000"/></nic>)";
  EXPECT_THAT(node(3, of_hosts),
              AllOf(HasSubstr("    count: 3  # read: f\n"), HasSubstr(one_more)));
}

TEST(PostedTopology, LeavesThatNothingJoinsAreSaidToBe) {
  EXPECT_THAT(
      posted_topology("SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\n"),
      HasSubstr("  spines: 1  # assumed: f has no switch above its leaves; one joins them\n"));
  EXPECT_THAT(posted_topology("SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\n"
                              "SwitchName=s Switches=a\nSwitchName=t Switches=b\n"),
              HasSubstr("  spines: 2  # assumed: f has 2 islands that nothing joins; here spines "
                        "join them\n"));
  EXPECT_THAT(posted_topology("SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\n"
                              "SwitchName=s Switches=a,b\n"),
              HasSubstr("  spines: 1  # assumed: f has one, which may stand for several\n"));
}

TEST(PostedTopology, SlotsOfOldPcieAreOfOldGpus) {
  EXPECT_THAT(posted_topology(R"(<system version="1"><cpu numaid="0">
<pci class="0x030200" link_speed="8 GT/s" link_width="16"/></cpu></system>)"),
              HasSubstr("  gpu: v100  # assumed: PCIe of this rate in f; --gpu says which\n"));
}

TEST(PostedTopology, CapabilityCountsMoreThanADomainOfSeveralHosts) {
  const std::string gpu =
      R"(<system version="1"><cpu numaid="0"><pci class="0x030200"><gpu dev="0" sm="90"/></pci></cpu></system>)";
  const std::string text = topology_text(
      {parse_facts(gpu, "f"), parse_facts("BlockName=b Nodes=n[1-32]\n", "blocks")}, "");
  EXPECT_THAT(text, HasSubstr("  gpu: h100-measured  # assumed: f says compute capability 9.0"));
}

TEST(PostedTopology, NamesOfGpusStayInTheirLine) {
  EXPECT_THAT(posted_topology(R"({"kind": "Node", "metadata": {"name": "a", "labels":
{"nvidia.com/gpu.product": "H200\nx: y"}}, "status": {"capacity": {"nvidia.com/gpu": "8"}}})"),
              HasSubstr("  gpu: h200-measured  # read: f: H200 x: y\n"));
}

TEST(PostedTopology, SixLinksToSomePairsAreOfAV100) {
  std::string matrix = "GPU0 GPU1 GPU2 GPU3 GPU4 CPU Affinity\n";
  for (int a = 0; a < 5; ++a) {
    matrix += fmt::format("GPU{}", a);
    for (int b = 0; b < 5; ++b) {
      const int apart = (b - a + 5) % 5;
      matrix += a == b ? " X" : apart == 1 || apart == 4 ? " NV2" : " NV1";
    }
    matrix += " 0-19\n";
  }
  EXPECT_THAT(posted_topology(matrix),
              HasSubstr("  gpu: v100  # assumed: 6 NVLinks; --gpu says which\n"));
}

TEST(PostedTopology, AnswersOnPeerAccessAreRefused) {
  for (const char* answer : {"OK", "NS", "CNS"}) {
    EXPECT_EQ(import_mistake(fmt::format(" \tGPU0\tGPU1\n GPU0\tX\t{0}\n GPU1\t{0}\tX\n", answer)),
              "f:2: error: is of nvidia-smi topo -p2p, which does not say how GPUs are joined\n"
              "hint: nvidia-smi topo -m does\n");
  }
}

TEST(PostedTopology, LinksOfAnAssumedGpuHaveAnAssumedRate) {
  const auto tray = [](const char* numa_ids, const std::string& gpu = "") {
    std::string text = "GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity GPU NUMA ID\n";
    std::istringstream ids(numa_ids);
    for (int row = 0; row < 4; ++row) {
      text += fmt::format("GPU{}", row);
      for (int column = 0; column < 4; ++column) text += row == column ? " X" : " NV18";
      std::string id;
      ids >> id;
      text += fmt::format(" 0-71 0,2-17 {}\n", id);
    }
    return posted_topology(text, gpu);
  };
  const auto has = [](const std::string& gpu, const std::string& rate) {
    return AllOf(HasSubstr("  gpu: " + gpu), HasSubstr("    bandwidth: " + rate));
  };
  EXPECT_THAT(tray("2 10 18 26"),
              has("gb200-training  # assumed: 18 NVLinks, and each of four GPUs is a NUMA node of "
                  "Grace; --gpu says which\n",
                  "900 GB/s  # assumed: 18 links of 50 GB/s by data sheet\n"));
  EXPECT_THAT(tray("N/A N/A N/A N/A"),
              has("h100-measured  # assumed", "450 GB/s  # assumed: 18 links of 25 GB/s"));
  EXPECT_THAT(tray("N/A N/A N/A N/A", "b200-training"),
              has("b200-training  # stated", "900 GB/s  # read: f: 18 links of 50 GB/s"));
}

}  // namespace
}  // namespace moesim
