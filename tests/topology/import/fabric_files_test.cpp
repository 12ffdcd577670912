// SPDX-License-Identifier: Apache-2.0
// Descriptions of fabrics by others, each small enough to check by eye.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/topology/import/fabric_shape.h"
#include "sim/topology/import/host_list.h"
#include "tests/topology/import/imported.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostList, BracketsRunOverNumbers) {
  EXPECT_THAT(expand_hosts("gpu[001-003,7],login"),
              ElementsAre("gpu001", "gpu002", "gpu003", "gpu7", "login"));
  EXPECT_THAT(expand_hosts("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  EXPECT_THAT(expand_hosts("n[9999998-9999999]"), ElementsAre("n9999998", "n9999999"));
  for (const char* list :
       {"a[1-", "a]1[", "a[3-1]", "a[x]", "a[1-99999999999]", "a[1-9][1-999999]", "a[[1]]"}) {
    EXPECT_THROW(expand_hosts(list), Error) << list;
  }
}

TEST(TopologyImport, SlurmTreeBecomesLeavesAndSpines) {
  const std::string text = imported({tree_of_slurm});
  EXPECT_THAT(text, HasSubstr("nodes: 20  # read: f0\n"));
  EXPECT_THAT(text, HasSubstr("nodes_per_leaf: 12  # read: f0: leaves have 8 to 12 hosts"));
  EXPECT_THAT(text, HasSubstr("kind: leaf-spine  # read: f0"));
  EXPECT_THAT(text, HasSubstr("gpus: 8  # assumed"));
}

TEST(TopologyImport, ALeafThatIsNotFullIsALeaf) {
  const std::string spine = "SwitchName=spine Switches=leaf[1-2]\n";
  const std::string text =
      imported({"SwitchName=leaf1 Nodes=gpu[1-8]\nSwitchName=leaf2 Nodes=gpu9\n" + spine});
  EXPECT_THAT(text, HasSubstr("nodes: 9  # read: f0"));
  EXPECT_THAT(text, HasSubstr("nodes_per_leaf: 8  # read: f0: leaves have 1 to 8 hosts"));
  EXPECT_THAT(text, HasSubstr("spines: 1"));
}

/// Two hosts of two adapters, every adapter of a host at another leaf; a spine joins the leaves.
const std::string two_rails =
    "vendid=0x2c9\nswitchguid=0x1(1)\nSwitch\t4 \"S-1\"\t# \"leaf1\" base port 0 lid 1\n"
    "[1]\t\"H-a0\"[1](a0)\t\t# \"a mlx5_0\" lid 5 4xNDR\n"
    "[2]\t\"H-b0\"[1](b0)\t\t# \"b mlx5_0\" lid 6 4xNDR\n"
    "[3]\t\"S-3\"[1]\t\t# \"spine\" lid 3 4xNDR\n\n"
    "switchguid=0x2(2)\nSwitch\t4 \"S-2\"\t# \"leaf2\" base port 0 lid 2\n"
    "[1]\t\"H-a1\"[1](a1)\t\t# \"a mlx5_1\" lid 7 4xNDR\n"
    "[2]\t\"H-b1\"[1](b1)\t\t# \"b mlx5_1\" lid 8 4xNDR\n"
    "[3]\t\"S-3\"[2]\t\t# \"spine\" lid 3 4xNDR\n\n"
    "switchguid=0x3(3)\nSwitch\t4 \"S-3\"\t# \"spine\" base port 0 lid 3\n"
    "[1]\t\"S-1\"[3]\t\t# \"leaf1\" lid 1 4xNDR\n[2]\t\"S-2\"[3]\t\t# \"leaf2\" lid 2 4xNDR\n\n"
    "caguid=0xa0\nCa\t1 \"H-a0\"\t\t# \"a mlx5_0\"\n[1](a0) \t\"S-1\"[1]\t\t# lid 5 4xNDR\n";

TEST(TopologyImport, InfiniBandFabricShowsRailsAndRates) {
  const std::string text = imported({two_rails});
  EXPECT_THAT(text, HasSubstr("nodes: 2  # read: f0"));
  EXPECT_THAT(text, HasSubstr("kind: rail"));
  EXPECT_THAT(text, HasSubstr("cross_rail: spine"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 50 GB/s  # read: f0"));
  EXPECT_THAT(text, HasSubstr("oversubscription: 2  # read: f0"));  // two links down, one up
}

TEST(TopologyImport, TreeOfThreeLevelsIsAFatTree) {
  const FabricShape shape =
      shape_of(*parse_facts("SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\n"
                            "SwitchName=l3 Nodes=n[5-6]\nSwitchName=l4 Nodes=n[7-8]\n"
                            "SwitchName=s1 Switches=l[1-2]\nSwitchName=s2 Switches=l[3-4]\n"
                            "SwitchName=core Switches=s[1-2]\n",
                            "f")
                    .fabric);
  EXPECT_EQ(shape.kind, FabricShape::Kind::fat_tree);
  EXPECT_EQ(shape.leaves_per_pod, 2);
  EXPECT_EQ(shape.spines, 1);
  EXPECT_EQ(shape.most_on_leaf, 2);
}

TEST(TopologyImport, ALeafByItselfHidesNoSpines) {
  const FabricShape shape =
      shape_of(*parse_facts("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[2-4]\n"
                            "SwitchName=s1 Switches=b\nSwitchName=s2 Switches=b\n",
                            "f")
                    .fabric);
  EXPECT_EQ(shape.kind, FabricShape::Kind::leaf_spine);
  EXPECT_EQ(shape.spines, 2);
  EXPECT_EQ(shape.leaves, 2);
  EXPECT_EQ(shape.least_on_leaf, 1);
  EXPECT_EQ(shape.most_on_leaf, 3);
  EXPECT_EQ(shape.hosts, 4);
}

TEST(TopologyImport, YamlOfOthers) {
  const std::string slurm = imported(
      {"- topology: t\n  cluster_default: true\n  tree:\n    switches:\n"
       "      - switch: root\n        children: s[1-2]\n      - switch: s1\n        nodes: n[1-4]\n"
       "      - switch: s2\n        nodes: n[5-8]\n"});
  EXPECT_THAT(slurm, HasSubstr("nodes: 8  # read: f0"));
  EXPECT_THAT(slurm, HasSubstr("nodes_per_leaf: 4  # read: f0"));
  const std::string blocks =
      imported({"BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\n"
                "BlockSizes=18\n",
                four_gpus});
  EXPECT_THAT(blocks, HasSubstr("nodes: 2  # read: f0: 36 hosts in NVLink domains of 18"));
  EXPECT_THAT(blocks, HasSubstr("gpus: 72  # read: f1: 4 of each host, one NVLink domain"));
  const std::string topograph = imported(
      {"switches:\n- name: core\n  switches: [leaf]\n- name: leaf\n  capacity_blocks: [cb]\n"
       "capacity_blocks:\n- name: cb\n  type: GB200\n  nvlink: nvl1\n  nodes: [n1, n2]\n"});
  EXPECT_THAT(topograph, HasSubstr("gpu: gb200-training  # read: f0: GB200"));
  const std::string kubernetes = imported({R"({"kind": "List", "items": [
        {"kind": "Node", "metadata": {"name": "a", "labels": {"nvidia.com/gpu.count": "8",
         "nvidia.com/gpu.product": "NVIDIA-H200"}}},
        {"kind": "Node", "metadata": {"name": "b", "labels": {"nvidia.com/gpu.count": "8",
         "nvidia.com/gpu.product": "NVIDIA-H200"}}},
        {"kind": "Node", "metadata": {"name": "login", "labels": {}}}]})"});
  EXPECT_THAT(kubernetes, HasSubstr("nodes: 2  # read: f0"));
  EXPECT_THAT(kubernetes, HasSubstr("gpu: h200-measured  # read: f0: NVIDIA-H200"));
  EXPECT_THAT(kubernetes, HasSubstr("1 node without GPUs"));
}

TEST(TopologyImport, BlocksOfSlurmAreDomainsAndOtherTopologiesAreLeftOut) {
  const ClusterFacts facts = parse_facts(
      "- topology: t\n  block:\n    blocks:\n    - {block: a, nodes: 'n[1-2]'}\n"
      "    - {block: b, nodes: 'n[3-5]'}\n    - {block: c}\n- topology: u\n",
      "f");
  EXPECT_EQ(facts.hosts, 5);
  EXPECT_EQ(facts.domains.domains, 2) << "one is empty";
  EXPECT_EQ(facts.domains.hosts_each, 3);
  EXPECT_THAT(facts.left_out, ElementsAre("1 other topologies of the file"));
}

TEST(TopologyImport, LinesOfSlurmMayGoOn) {
  EXPECT_EQ(parse_facts("SwitchName=a \\\n  Nodes=n[1-3]\nSwitchName=b Nodes=n[4-6]\n"
                        "SwitchName=s Switches=a,b\n",
                        "f")
                .hosts,
            6);
}

TEST(TopologyImport, SwitchesOfTopographAreAFabric) {
  const std::string text =
      imported({"switches:\n- name: core\n  switches: [a, b]\n- name: a\n  nodes: [7, n1, n2]\n"
                "- name: b\n  nodes: [n3, n4]\n"});
  EXPECT_THAT(text, HasSubstr("nodes: 4  # read: f0"));
  EXPECT_THAT(text, HasSubstr("nodes_per_leaf: 2  # read: f0"));
}

TEST(TopologyImport, DomainsWithoutHostsDoNotCount) {
  const std::string text =
      imported({"switches:\n- name: leaf\n  capacity_blocks: [a, b]\ncapacity_blocks:\n"
                "- {name: a, type: GB200, nvlink: nvl1, nodes: [n1, n2]}\n"
                "- {name: b, type: GB200, nvlink: nvl2}\n"});
  EXPECT_THAT(text, HasSubstr("nodes: 1  # read: f0: 2 hosts in NVLink domains of 2"));
  for (const char* empty : {"switches:\n- {name: leaf, nodes: [n1, n2]}\n"
                            "capacity_blocks:\n- {name: a, nvlink: nvl1}\n",
                            "SwitchName=s Nodes=n[1-2]\nBlockName=b\n"}) {
    EXPECT_THAT(imported({empty}), HasSubstr("nodes: 2  # read: f0")) << empty;
  }
}

TEST(TopologyImport, HostsAtTwoLeavesAreSaidToBe) {
  EXPECT_THAT(parse_facts("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[3-6]\n"
                          "SwitchName=s Switches=a,b\n",
                          "f")
                  .left_out,
              ElementsAre("the second leaf of 2 hosts, first n3"));
}

}  // namespace
}  // namespace moesim
