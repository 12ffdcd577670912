// SPDX-License-Identifier: Apache-2.0
// Descriptions of clusters by others, each small enough to check by eye, become topologies.
#include "sim/topology/import/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/topology/import/fabric_shape.h"
#include "sim/topology/import/host_list.h"
#include "sim/topology/read/foreign.h"
#include "sim/topology/reader.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string imported(const std::vector<std::string>& texts, const std::string& gpu = "") {
  std::vector<ClusterFacts> facts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    facts.push_back(parse_facts(texts[i], "f" + std::to_string(i)));
  }
  const std::string text = topology_text(facts, gpu);
  EXPECT_NO_THROW(parse_topology(text, "imported")) << text;
  return text;
}

std::string import_mistake(const std::string& text) {
  return error_of([&] { topology_text({parse_facts(text, "f")}, ""); });
}

const std::string tree_of_slurm =
    "# two leaves\nSwitchName=leaf1 Nodes=gpu[001-012]\nSwitchName=leaf2 Nodes=gpu[013-020]\n"
    "SwitchName=spine Switches=leaf[1-2]\n";
const std::string four_gpus =
    "        GPU0    GPU1    GPU2    GPU3    NIC0    NIC1    CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV18    NV18    NV18    PIX     SYS     0-47    0\n"
    "GPU1    NV18     X      NV18    NV18    NODE    SYS     0-47    0\n"
    "GPU2    NV18    NV18     X      NV18    SYS     PIX     48-95   1\n"
    "GPU3    NV18    NV18    NV18     X      SYS     NODE    48-95   1\n"
    "NIC0    PIX     NODE    SYS     SYS      X      SYS\n"
    "NIC1    SYS     SYS     PIX     NODE    SYS      X\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n";

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

TEST(TopologyImport, NodesFromOneFileFabricFromAnother) {
  const std::string text = imported({four_gpus, tree_of_slurm});
  const Topology cluster = parse_topology(text, "imported").topology;
  EXPECT_EQ(cluster.gpu_count(), 80);
  EXPECT_EQ(cluster.host_count(), 20);
  EXPECT_THAT(text, HasSubstr("gpus: 4  # read: f0"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 450 GB/s  # assumed: 18 links of 25 GB/s"));
  EXPECT_THAT(text, HasSubstr("count: 2  # read: f0"));
}

TEST(TopologyImport, MatricesHaveADiagonal) {
  EXPECT_EQ(foreign_form("GPU0\tGPU1\nGPU0\tX\tSYS\n"), ForeignForm::smi);
  EXPECT_NE(foreign_form("GPU0 is busy\n"), ForeignForm::smi);
}

TEST(TopologyImport, TerminalsColourMatrices) {
  std::string underlined =
      "\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\x1b[0m\r\n"
      "GPU0\t X \tSYS\t0-7\tN/A\r\nGPU1\tSYS\t X \t0-7\tN/A\r\n";
  EXPECT_THAT(imported({underlined}), Not(HasSubstr("nvlink")));
}

std::string matrix_of_four(const std::vector<std::string>& rows) {
  std::string text = "     GPU0 GPU1 GPU2 GPU3 CPU Affinity\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += "GPU" + std::to_string(r) + " " + rows[r] + " 0-7\n";
  }
  return text;
}

TEST(TopologyImport, PairsOfNvlinkHaveOnePeerEach) {
  const std::string pairs = imported(
      {matrix_of_four({"X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"})});
  EXPECT_THAT(pairs, HasSubstr("kind: pairs  # read: f0"));
  // A ring, a GPU without a peer, pairs that differ.
  for (const std::vector<std::string>& rows : std::vector<std::vector<std::string>>{
           {"X NV4 SYS NV4", "NV4 X NV4 SYS", "SYS NV4 X NV4", "NV4 SYS NV4 X"},
           {"X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X SYS", "SYS SYS SYS X"},
           {"X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV2", "SYS SYS NV2 X"}}) {
    EXPECT_THAT(imported({matrix_of_four(rows)}), HasSubstr("joins only some pairs"));
  }
  const std::string gpu =
      R"(<pci busid="a" class="0x030200"><gpu dev="0"><nvlink count="4" tclass="0x030200"/></gpu></pci>)";
  const auto node = [&](int gpus) {
    std::string text = R"(<system version="1"><cpu numaid="0">)";
    for (int g = 0; g < gpus; ++g) text += gpu;
    return text + "</cpu></system>";
  };
  EXPECT_THAT(imported({node(4)}), HasSubstr("kind: pairs  # read: f0"));
  EXPECT_THAT(imported({node(3)}), HasSubstr("joins only some pairs"));
}

TEST(TopologyImport, NcclDumpsHaveSpeeds) {
  const std::string gpu = [] {
    std::string out;
    for (int i = 0; i < 2; ++i) {
      out +=
          "<pci busid=\"0000:0" + std::to_string(i) +
          ":00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" +
          std::to_string(i) +
          "\" sm=\"90\"><nvlink target=\"0000:99:00.0\" count=\"8\" "
          "tclass=\"0x068000\"/></gpu></pci>";
    }
    return out;
  }();
  const std::string text =
      imported({"<system version=\"1\"><cpu numaid=\"0\"><pci class=\"0x060400\">" + gpu +
                "<nic><net name=\"a\" speed=\"400000\"/><net name=\"b\" speed=\"400000\"/>"
                "<net name=\"c\" speed=\"25000\"/></nic></pci></cpu></system>"});
  EXPECT_THAT(text, HasSubstr("gpu: h800-measured  # assumed: f0 says compute capability 9.0"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 200 GB/s  # assumed: 8 links"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 64 GB/s  # read: f0\n"));
  EXPECT_THAT(text, HasSubstr("count: 2  # read: f0"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 50 GB/s  # read: f0"));
  EXPECT_THAT(text, HasSubstr("1 more NIC"));
}

TEST(TopologyImport, NcclGraphHasWhatItPlansWith) {
  const std::string text = imported(
      {"<graphs version=\"1\"><graph id=\"0\" nchannels=\"4\" speedintra=\"20\" speedinter=\"20\" "
       "typeintra=\"NVL\"><channel><net dev=\"0\"/><gpu dev=\"0\"/><gpu dev=\"1\"/><net dev=\"0\"/>"
       "</channel></graph></graphs>"});
  EXPECT_THAT(text, HasSubstr("gpus: 2  # read: f0"));
  EXPECT_THAT(text, HasSubstr("bandwidth: 80 GB/s  # read: f0: what NCCL plans with"));
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

TEST(TopologyImport, DumpsWithoutDriversSayNothingOfNvlink) {
  const std::string text = imported({R"(<system><cpu><pci class="0x030200"/></cpu>
      <cpu><pci class="0x030200"/></cpu></system>)"});
  EXPECT_THAT(text, HasSubstr("gpus: 2  # read: f0"));
  EXPECT_THAT(text, HasSubstr("kind: switch  # assumed: no file says"));
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

TEST(TopologyImport, FourGpusThatShareTheirLinksOutAreAMesh) {
  const auto of_links = [](const std::string& links) {
    return matrix_of_four({"X " + links + " " + links + " " + links,
                           links + " X " + links + " " + links, links + " " + links + " X " + links,
                           links + " " + links + " " + links + " X"});
  };
  EXPECT_THAT(imported({of_links("NV4")}), HasSubstr("kind: mesh"));
  EXPECT_THAT(imported({of_links("NV8")}), HasSubstr("kind: switch"));
}

TEST(TopologyImport, SwitchesOfTopographAreAFabric) {
  const std::string text =
      imported({"switches:\n- name: core\n  switches: [a, b]\n- name: a\n  nodes: [7, n1, n2]\n"
                "- name: b\n  nodes: [n3, n4]\n"});
  EXPECT_THAT(text, HasSubstr("nodes: 4  # read: f0"));
  EXPECT_THAT(text, HasSubstr("nodes_per_leaf: 2  # read: f0"));
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

TEST(TopologyImport, AnyNameOfAGpuIsAName) {
  for (const auto& [product, name] :
       {std::pair("=", "'-'"), {"null", "'null'"}, {"AZ 09", "'az-09'"}}) {
    const std::string text = imported(
        {fmt::format("kind: List\nitems:\n- kind: Node\n  metadata:\n    name: a\n    labels:\n"
                     "      nvidia.com/gpu.count: '8'\n      nvidia.com/gpu.product: '{}'\n",
                     product)});
    EXPECT_THAT(text, HasSubstr(fmt::format("gpu: {}  # read: f0: {}", name, product)));
  }
}

TEST(TopologyImport, NamesOfGpusSayMemoryAndForm) {
  const auto topology = [](const std::string& product, int gpus = 8) {
    return imported(
        {fmt::format("kind: List\nitems:\n- kind: Node\n  metadata:\n    name: a\n    labels:\n"
                     "      nvidia.com/gpu.count: '{}'\n      nvidia.com/gpu.product: '{}'\n",
                     gpus, product)});
  };
  for (const auto& [product, comment] : std::vector<std::pair<std::string, std::string>>{
           {"NVIDIA-A100-SXM4-80GB", "a100-measured  # read: "},
           {"NVIDIA-H100-80GB-HBM3", "h100-measured  # read: "},
           {"NVIDIA-H200", "h200-measured  # read: "},
           {"NVIDIA-GB200", "gb200-training  # read: "},
           {"NVIDIA-H20-3e", "h20-measured  # assumed: "},
           {"NVIDIA-A100-SXM4-40GB", "a100-measured  # assumed: "},
           {"NVIDIA-GH200-480GB", "h200-measured  # assumed: "},
           {"NVIDIA-L40S", "'nvidia-l40s'  # read: "}}) {
    EXPECT_THAT(topology(product), HasSubstr("  gpu: " + comment)) << product;
  }
  for (const char* card : {"NVIDIA-H100-PCIe", "NVIDIA-H100-NVL", "NVIDIA-H100-80GB-HBM2e",
                           "NVIDIA-A100-PCIE-40GB", "NVIDIA-A800-80GB-PCIe", "NVIDIA-H200-NVL"}) {
    EXPECT_THAT(topology(card), HasSubstr("  # assumed: f0 says ")) << card;
    EXPECT_THAT(topology(card), Not(HasSubstr("nvlink:"))) << card;
  }
  EXPECT_THAT(topology("NVIDIA-GH200-120GB"), Not(HasSubstr("nvlink:")));
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

TEST(TopologyImport, HwlocKnowsDevices) {
  const std::string text = imported(
      {"<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
       "<object type=\"Machine\"><object type=\"Package\"><object type=\"Bridge\">"
       "<object type=\"PCIDev\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\" "
       "pci_link_speed=\"63.0\"/><object type=\"PCIDev\" pci_type=\"0302 [10de:2330] [] a1\"/>"
       "<object type=\"PCIDev\" pci_type=\"0207 [15b3:1021] [] 00\"><object type=\"OSDev\" "
       "osdev_type=\"3\" name=\"mlx5_0\"/></object></object></object></object></topology>"});
  EXPECT_THAT(text, HasSubstr("gpu: h100-measured  # read: f0: NVIDIA H100"));
  EXPECT_THAT(text, HasSubstr("gpus: 2  # read: f0"));
  EXPECT_THAT(text, HasSubstr("count: 1  # read: f0"));
}

/// Two GPUs of a name with a NIC, as nvidia-smi and NCCL show them.
std::string network_by_smi(const std::string& gpu, const std::string& device) {
  const std::string text = "GPU 0: " + gpu +
                           "\n\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\nGPU1\tNV18\t X \tSYS\n" +
                           "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: " + device + "\n";
  const std::string topology = topology_text({parse_facts(text, "f")}, "");
  const auto at = topology.find("\nnetwork: ");
  return at == topology.npos ? "" : topology.substr(at + 10, topology.find(' ', at + 10) - at - 10);
}

TEST(TopologyImport, NetworksFollowFromDevices) {
  EXPECT_EQ(network_by_smi("NVIDIA H100 80GB HBM3", "mlx5_0"), "") << "InfiniBand or RoCE";
  EXPECT_EQ(network_by_smi("NVIDIA H100 80GB HBM3", "rdmap79s0"), "efa");
  EXPECT_EQ(network_by_smi("NVIDIA H200", "rdmap79s0"), "efa-v3");
  EXPECT_EQ(network_by_smi("NVIDIA B200", "rdmap79s0"), "efa-v4");
  EXPECT_EQ(network_by_smi("NVIDIA H100 80GB HBM3", "bnxt_re0"), "roce");
  EXPECT_EQ(network_by_smi("NVIDIA H100 80GB HBM3", "mlx5_bond_0"), "roce");
  EXPECT_EQ(network_by_smi("NVIDIA H100 80GB HBM3", "ibp24s0"), "infiniband");
}

/// A bond next to no GPU is none of the NICs that exchange.
TEST(TopologyImport, NetworksAreThoseOfTheNicsThatCount) {
  const auto node = [](const std::string& legend, const std::string& last = "NODE") {
    return *parse_facts("\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNV18\tPIX\t" + last +
                            "\t0-7\nGPU1\tNV18\t X \tSYS\t" + last + "\t0-7\n\n" + legend,
                        "f")
                .node;
  };
  EXPECT_EQ(node("NIC0: mlx5_0 NIC1: mlx5_bond_0").network, "");
  EXPECT_EQ(node("NIC0: ibp1s0 NIC1: mlx5_bond_0").network, "infiniband");
  EXPECT_EQ(node("NIC0: ibp1s0 NIC1: mlx5_bond_0", "PXB").network, "") << "two networks";
  EXPECT_EQ(node("NIC0: mlx5_bond_0 NIC1: mlx5_bond_1", "PIX").network, "roce");
}

/// A column with another name than NIC0 or mlx5_0 moves no affinity.
TEST(TopologyImport, ColumnsAreDevicesWhateverTheirNames) {
  const auto matrix = [](const std::string& a, const std::string& b, const std::string& begin = "",
                         const std::string& end = "") {
    return begin + "\tGPU0\tGPU1\t" + a + "\t" + b + "\tCPU Affinity\tNUMA Affinity" + end + "\n" +
           "GPU0\t X \tNV18\tPIX\tSYS\t0-47\t0\nGPU1\tNV18\t X \tSYS\tPIX\t48-95\t1\n" + a +
           "\tPIX\tSYS\t X \tSYS\n" + b + "\tSYS\tPIX\tSYS\t X \n";
  };
  for (const auto& [a, b] : {std::pair("rocep24s0", "bnxt_re1"),
                             {"hfi1_0", "hfi1_1"},
                             {"rdmap1s0", "efa_1"},
                             {"erdma_0", "erdma_1"},
                             {"NIC0", "NIC1"}}) {
    const NodeFacts node = *parse_facts(matrix(a, b), "f").node;
    EXPECT_EQ(node.nics, 2) << a;
    EXPECT_EQ(node.sockets, 2) << a;
  }
  EXPECT_EQ(parse_facts(matrix("rocep24s0", "bnxt_re1"), "f").node->network, "roce");
  const NodeFacts styled = *parse_facts(matrix("NIC0", "NIC1",
                                               "\x5b"
                                               "4m",
                                               "[0m"),
                                        "f")
                                .node;
  EXPECT_EQ(styled.nics, 2) << "marks whose first character is lost";
  EXPECT_THAT(import_mistake("GPU0\tGPU1\tNEW0\tCPU Affinity\nGPU0\t X \tSYS\tPIX\t0\n"
                             "GPU1\tSYS\t X \tPIX\t0\n"),
              HasSubstr("f:1: error: the column 'NEW0' has no row"));
}

TEST(TopologyImport, HostsAtTwoLeavesAreSaidToBe) {
  EXPECT_THAT(parse_facts("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[3-6]\n"
                          "SwitchName=s Switches=a,b\n",
                          "f")
                  .left_out,
              ElementsAre("the second leaf of 2 hosts, first n3"));
}

TEST(TopologyImport, NetworksOfNcclAreThoseOfTheFastestNics) {
  const auto network = [](const std::string& nets) {
    return parse_facts("<system version=\"1\"><cpu><pci class=\"0x020000\"><nic>" + nets +
                           "</nic></pci><pci class=\"0x030200\"><gpu sm=\"90\"/></pci></cpu>"
                           "</system>",
                       "f")
        .node->network;
  };
  const std::string slow = R"(<net name="bnxt_re0" speed="100000"/>)";
  const std::string fast = R"(<net name="rdmap1s0" speed="200000"/>)";
  EXPECT_EQ(network(slow), "roce");
  EXPECT_EQ(network(slow + fast), "efa");
  EXPECT_EQ(network(fast + slow), "efa");
  EXPECT_EQ(network(R"(<net name="mlx5_0" speed="400000"/>)" + slow), "");
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
