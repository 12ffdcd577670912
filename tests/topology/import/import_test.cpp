// SPDX-License-Identifier: Apache-2.0
// Descriptions of one cluster by several files of others, and of what is wrong with them.
#include "sim/topology/import/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/base/error.h"
#include "sim/topology/import/host_list.h"
#include "tests/topology/import/imported.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TopologyImport, NodesFromOneFileFabricFromAnother) {
  const std::string text = imported({four_gpus, tree_of_slurm});
  const Topology cluster = parse_topology(text, "imported").topology;
  EXPECT_EQ(cluster.gpu_count(), 80);
  EXPECT_EQ(cluster.host_count(), 20);
  EXPECT_THAT(text, HasSubstr("gpus: 4  # read: f0"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 450 GB/s  # assumed: 18 links of 25 GB/s"));
  EXPECT_THAT(text, HasSubstr("count: 2  # read: f0"));
}

TEST(TopologyImport, NvlinkOfAGpuWithoutIsThatOfH100s) {
  EXPECT_THAT(topology_text({parse_facts(four_gpus, "f0")}, "a-gpu-of-ours"),
              HasSubstr("bandwidth: 450 GB/s  # assumed: 18 links of 25 GB/s"));
}

TEST(TopologyImport, OddFilesAreReadAsFarAsTheyGo) {
  EXPECT_THAT(imported({four_gpus}),
              HasSubstr("gpu: h100-measured  # assumed: 18 NVLinks; --gpu says which"));
  EXPECT_THAT(imported({"GPU links\n" + four_gpus}), HasSubstr("gpus: 4  # read: f0"));
  EXPECT_THAT(import_mistake("switches:\n- name: a\n"), HasSubstr("no switch with nodes"));
  EXPECT_THAT(import_mistake("GPU0 GPU1\nGPU0 X\nGPU1 NV1 X \n"),
              HasSubstr("f:2: error: GPU0 has 1 cells for 2 columns"));
  EXPECT_THROW(expand_hosts("a[1000000000]"), Error) << "of nine digits at most";
  const std::string net = R"(<system><cpu><pci class="0x030200"><gpu/></pci>
      <nic><net speed="-1"/></nic></cpu></system>)";
  EXPECT_THAT(imported({net}), HasSubstr("bandwidth: 50 GB/s  # assumed: usual with this GPU"));
  EXPECT_THAT(import_mistake("kind: Pod\nitems: []\n"), HasSubstr("not a description"));
  EXPECT_THAT(imported({"switches:\n- {name: leaf, capacity_blocks: [a, b]}\ncapacity_blocks:\n"
                        "- {name: a, type: GB200, nodes: [n1]}\n"
                        "- {name: b, type: H100, nodes: [n2]}\n"}),
              HasSubstr("gpu: gb200-training  # read: f0: GB200"));
}

TEST(TopologyImport, NodesOfOneListAreAlike) {
  const auto list = [](const char* gpus, const char* product) {
    const char* const node =
        "- kind: Node\n  metadata:\n    name: {}\n    labels:\n"
        "      nvidia.com/gpu.count: '{}'\n      nvidia.com/gpu.product: '{}'\n";
    return "kind: List\nitems:\n" + fmt::format(fmt::runtime(node), "a", "8", "H200") +
           fmt::format(fmt::runtime(node), "b", gpus, product);
  };
  EXPECT_EQ(import_mistake(list("8", "H200")), "");
  EXPECT_THAT(import_mistake(list("4", "H200")), HasSubstr("nodes differ: 8 x 'H200' and 4 x"));
  EXPECT_THAT(import_mistake(list("8", "H100")), HasSubstr("nodes differ: 8 x 'H200' and 8 x"));
}

TEST(TopologyImport, AStatedGpuHasItsOwnLinks) {
  const std::string text = imported({tree_of_slurm}, "a100");
  EXPECT_THAT(text, HasSubstr("gpu: a100  # stated: --gpu"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 300 GB/s"));  // 12 NVLinks of 25 GB/s
}

TEST(TopologyImport, DomainsOfTwoHostsHaveTheGpusAndNicsOfBoth) {
  const std::string text =
      imported({"BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\n", four_gpus});
  EXPECT_THAT(text, HasSubstr("gpus: 8  # read: f1: 4 of each host, one NVLink domain"));
  EXPECT_THAT(text, HasSubstr("count: 4  # read: f1: 2 of each host"));
}

TEST(TopologyImport, NodesOfSeveralFilesAreAlike) {
  const auto matrix = [](const std::string& links, bool two_nics) {
    return "\tGPU0\tGPU1\tNIC0" + std::string(two_nics ? "\tNIC1" : "") + "\nGPU0\t X \t" + links +
           "\tPIX" + (two_nics ? "\tPIX" : "") + "\nGPU1\t" + links + "\t X \tPIX" +
           (two_nics ? "\tPIX" : "") + "\n";
  };
  const auto mistake = [](const std::string& a, const std::string& b) {
    return error_of([&] { topology_text({parse_facts(a, "a"), parse_facts(b, "b")}, ""); });
  };
  EXPECT_EQ(mistake(matrix("NV18", true), matrix("NV18", true)), "");
  EXPECT_THAT(mistake(matrix("NV18", true), matrix("NV12", true)),
              HasSubstr("a and b contradict each other: NVLinks: 18 and 12"));
  EXPECT_THAT(mistake(matrix("NV18", true), matrix("NV18", false)),
              HasSubstr("a and b contradict each other: NICs of a node: 2 and 1"));
}

/// Two GPUs behind switches, each line after a prefix.
std::string smi_of(const std::string& prefix, const std::string& link = "NV18") {
  std::string text = prefix + "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n";
  text += prefix + fmt::format("GPU0\t X \t{}\tPIX\t0-47\n", link);
  text += prefix + fmt::format("GPU1\t{}\t X \tSYS\t0-47\n", link);
  return text + prefix + "NIC0\tPIX\tSYS\t X \n" + prefix + "  NIC0: mlx5_0\n";
}

TEST(TopologyImport, MatricesOfSeveralMachinesAreSoManyHosts) {
  for (const std::string& text :
       {smi_of("n1: ") + smi_of("n2: "), "n1\n" + smi_of("") + "n2\n" + smi_of("")}) {
    const ClusterFacts facts = parse_facts(text, "f");
    EXPECT_EQ(facts.hosts, 2);
    EXPECT_EQ(facts.node->gpus, 2);
    EXPECT_EQ(facts.node->nics, 1);
  }
  EXPECT_EQ(parse_facts(smi_of("n1: "), "f").hosts, 0) << "one says nothing of others";
  EXPECT_THAT(import_mistake(smi_of("n1: ") + smi_of("n2: ", "SYS")),
              HasSubstr("its machines differ: 2 GPUs of 18 NVLinks and 1 NICs, 2 of 0 and 1"));
}

TEST(TopologyImport, MistakesAreTold) {
  EXPECT_THAT(import_mistake("SwitchName=a Nodes=n[1-\n"), HasSubstr("f:1: error"));
  EXPECT_THAT(import_mistake("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
              HasSubstr("no switch has hosts"));
  EXPECT_THAT(
      import_mistake("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2 Switches=a\n"),
      HasSubstr("below itself"));
  EXPECT_THAT(import_mistake("<system>\n<cpu>"), HasSubstr("f:2: error: not XML"));
  EXPECT_THAT(import_mistake("<html></html>"), HasSubstr("XML of <html>"));
  EXPECT_THAT(import_mistake("<system version=\"1\"/>"), HasSubstr("without GPUs"));
  EXPECT_THAT(import_mistake("a: 1\n"), HasSubstr("not a description of a cluster"));
  EXPECT_THAT(import_mistake("a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n"),
              HasSubstr("NCCL_TOPO_DUMP_FILE=topo.xml"));
  EXPECT_THAT(import_mistake("GPU0 GPU1\nGPU0 X NV1\nGPU0 NV1 X\n"),
              HasSubstr("f:3: error: GPU0 has two rows"));
  EXPECT_THROW(topology_text({parse_facts(four_gpus, "a"),
                              parse_facts("<graphs><graph><channel><gpu dev=\"0\"/></channel>"
                                          "</graph></graphs>",
                                          "b")},
                             ""),
               Error);
}

TEST(TopologyImport, WhatIsAssumedCanBeAsked) {
  EXPECT_THAT(assumed_in("a: 1  # assumed: x\nb:\n  c: 2 us  # assumed\n  d: 3  # read: f\n"),
              ElementsAre("a 1", "b.c 2 us"));
}

}  // namespace
}  // namespace moesim
