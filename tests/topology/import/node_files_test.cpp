// SPDX-License-Identifier: Apache-2.0
// Descriptions of nodes by others: their GPUs, links and NICs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/topology/read/foreign.h"
#include "tests/topology/import/imported.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(TopologyImport, DumpsWithoutDriversSayNothingOfNvlink) {
  const std::string text = imported({R"(<system><cpu><pci class="0x030200"/></cpu>
      <cpu><pci class="0x030200"/></cpu></system>)"});
  EXPECT_THAT(text, HasSubstr("gpus: 2  # read: f0"));
  EXPECT_THAT(text, HasSubstr("kind: switch  # assumed: no file says"));
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

}  // namespace
}  // namespace moesim
