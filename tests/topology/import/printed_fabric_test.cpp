// SPDX-License-Identifier: Apache-2.0
// What iblinkinfo and nvidia-smi print, and what programs print that is of no use.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/topology/import/import.h"
#include "sim/topology/read/foreign.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

std::string printed_topology(const std::string& text) {
  try {
    return topology_text({parse_facts(text, "f")}, "");
  } catch (const Error& e) {
    return e.what();
  }
}

std::string port_of(int lid, int port, const std::string& signal, int peer_lid,
                    const std::string& peer) {
  return fmt::format(
      "   {:9} {:4}[  ] ==( 4X {:>12} Gbps Active/  LinkUp)==> {:7} {:4}[  ] \"{}\" ( )\n", lid,
      port, signal, peer_lid, port, peer);
}

const std::string two_leaves =
    "CA: n1 HCA-1:\n      0x1      10    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       1 "
    "  "
    " 1[  ] \"leaf\" ( )\n"
    "Switch: 0xa leaf:\n" +
    port_of(1, 1, "106.25", 10, "n1 HCA-1") + port_of(1, 2, "106.25", 11, "n2 HCA-1") +
    "           1    3[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n" +
    port_of(1, 4, "53.125", 3, "spine") + port_of(1, 41, "53.125", 9, "Mellanox Aggregation Node") +
    "Switch: 0xb leaf:\n" + port_of(2, 1, "106.25", 12, "n3 mlx5_0") +
    port_of(2, 4, "53.125", 3, "spine") + "Switch: 0xc spine:\n" +
    port_of(3, 1, "53.125", 1, "leaf") + port_of(3, 2, "53.125", 2, "leaf");

TEST(PrintedFabric, IblinkinfoHasSwitchesHostsAndRates) {
  const std::string topology = printed_topology(two_leaves);
  EXPECT_THAT(topology, HasSubstr("source: 'f (iblinkinfo)'"));
  EXPECT_THAT(topology, HasSubstr("nodes: 3  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("    count: 1  # read: f\n    bandwidth: 50 GB/s  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("  kind: leaf-spine  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("  oversubscription: 3  # read: f"));
  EXPECT_EQ(name_of(foreign_form(two_leaves)), "iblinkinfo's output");
}

TEST(PrintedFabric, SignalsOfLanesCarryData) {
  const std::vector<std::pair<std::string, std::string>> rates = {
      {"2.5", "1 GB/s"},       {"5.0", "2 GB/s"},         {"10.0", "4 GB/s"},
      {"14.0625", "6.8 GB/s"}, {"25.78125", "12.5 GB/s"}, {"53.125", "25 GB/s"},
      {"106.25", "50 GB/s"},   {"212.5", "100 GB/s"}};
  for (const auto& [signal, rate] : rates) {
    EXPECT_THAT(printed_topology("Switch: 0xa s:\n" + port_of(1, 1, signal, 2, "n1 HCA-1") +
                                 port_of(1, 2, signal, 3, "n2 HCA-1")),
                HasSubstr(fmt::format("    bandwidth: {}  # read: f\n", rate)));
  }
}

/// A leaf with two hosts, at given rates, and two links to a spine.
std::string leaf_of_ibnetdiscover(int number, const std::string& second_rate) {
  return fmt::format(
      "switchguid=0x{0}\nSwitch\t8 \"S-{0}\"\t# \"leaf\" base port 0 lid {0}\n"
      "[1]\t\"H-{0}1\"[1](a)\t\t# \"n{0}1 mlx5_0\" lid 5 4xNDR\n"
      "[2]\t\"H-{0}2\"[1](b)\t\t# \"n{0}2 mlx5_0\" lid 6 {1}\n"
      "[3]\t\"S-9\"[1]\t\t# \"spine\" lid 9 4xNDR\n[4]\t\"S-9\"[2]\t\t# \"spine\" lid 9 4xNDR\n\n",
      number, second_rate);
}
const std::string spine_of_ibnetdiscover =
    "Switch\t8 \"S-9\"\t# \"spine\" base port 0 lid 9\n"
    "[1]\t\"S-1\"[3]\t\t# \"leaf\" lid 1 4xNDR\n[2]\t\"S-1\"[4]\t\t# \"leaf\" lid 1 4xNDR\n"
    "[3]\t\"S-2\"[3]\t\t# \"leaf\" lid 2 4xNDR\n[4]\t\"S-2\"[4]\t\t# \"leaf\" lid 2 4xNDR\n\n"
    "Ca\t1 \"H-11\"\t# \"n11 mlx5_0\"\nCa\t1 \"H-12\"\t# \"n12 mlx5_0\"\n"
    "Ca\t1 \"H-21\"\t# \"n21 mlx5_0\"\nCa\t1 \"H-22\"\t# \"n22 mlx5_0\"\n";

TEST(PrintedFabric, ASlowAdapterIsTakenAsTheOthersAndNamed) {
  for (const auto& [rate, note] :
       {std::pair("4xNDR", ""),
        {"4xHDR",
         "# left out: f: that 1 of 4 links to hosts is not 50 GB/s, such as 25 GB/s of "
         "n22\n"},
        {"4xXDR",
         "# left out: f: that 1 of 4 links to hosts is not 50 GB/s, such as 100 GB/s of "
         "n22\n"}}) {
    const std::string topology =
        printed_topology("vendid=0x2c9\n" + leaf_of_ibnetdiscover(1, "4xNDR") +
                         leaf_of_ibnetdiscover(2, rate) + spine_of_ibnetdiscover);
    EXPECT_THAT(topology, HasSubstr("    bandwidth: 50 GB/s  # read: f\n")) << rate;
    EXPECT_THAT(topology, HasSubstr("  oversubscription: 1  # read: f")) << rate;
    EXPECT_EQ(topology.find("left out") != topology.npos, *note != 0) << rate;
    EXPECT_THAT(topology, HasSubstr(note)) << rate;
  }
}

/// Hosts with so many links to one switch, by name.
std::string hosts_at_a_switch(const std::vector<std::pair<std::string, int>>& hosts) {
  std::string ports, adapters;
  int port = 0;
  for (const auto& [host, links] : hosts) {
    for (int link = 0; link < links; ++link) {
      ++port;
      ports +=
          fmt::format("[{0}]\t\"H-{0}\"[1](a)\t\t# \"{1}\" lid 5 4xNDR\n", port,
                      host.find(' ') == host.npos ? fmt::format("{} mlx5_{}", host, link) : host);
      adapters += fmt::format("Ca\t1 \"H-{}\"\t# \"{}\"\n", port, host);
    }
  }
  return "vendid=0x2c9\nswitchguid=0x1\nSwitch\t64 \"S-1\"\t# \"leaf\" base port 0 lid 1\n" +
         ports + "\n" + adapters;
}

TEST(PrintedFabric, HostsWithFewLinksAreLeftOut) {
  const std::string topology =
      printed_topology(hosts_at_a_switch({{"n1", 8}, {"n2", 7}, {"stor1", 1}, {"ufm", 1}}));
  EXPECT_THAT(topology,
              HasSubstr("# left out: f: 2 hosts with few links, others have 8: stor1, ufm\n"));
  EXPECT_THAT(topology, HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(printed_topology(hosts_at_a_switch({{"n1", 1}, {"n2", 1}, {"n3", 2}})),
              HasSubstr("nodes: 3  # read: f\n"));
}

TEST(PrintedFabric, AdaptersWithoutHostsAreRefused) {
  const std::string product = "MT4129 ConnectX7   Mellanox Technologies";
  EXPECT_THAT(printed_topology(hosts_at_a_switch({{product, 8}})),
              HasSubstr("8 adapters do not say whose they are, such as '" + product +
                        "'\nhint: ibnetdiscover --node-name-map FILE"));
  EXPECT_THAT(printed_topology(hosts_at_a_switch({{"n1", 4}, {product, 4}})),
              HasSubstr("4 adapters do not say whose"));
  EXPECT_THAT(printed_topology(hosts_at_a_switch({{"n1", 8}, {"n2", 8}, {product, 1}})),
              HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(printed_topology("Switch: 0xa s:\n" + port_of(1, 1, "53.125", 2, product) +
                               port_of(1, 2, "53.125", 3, product)),
              HasSubstr("2 adapters do not say whose"));
}

TEST(PrintedFabric, IblinkinfoMayHaveALineForEachPort) {
  const std::string leaf = "0x0c42a1 \"MF0;leaf\"",
                    rate = "==( 4X 25.78125 Gbps Active/  LinkUp)==> ";
  const std::string topology = printed_topology(
      leaf + " 3 1[  ] " + rate + "0xb1 1 1[  ] \"n1 HCA-1\" ( )\n" + leaf + " 3 2[  ] " + rate +
      "0xb2 2 1[  ] \"n2 HCA-1\" ( )\n" + leaf + " 3 3[  ] ==( Down/ Polling)==>  [  ] \"\" ( )\n" +
      "0xb1 \"n1 HCA-1\" 1 1[  ] " + rate + "0x0c42a1 3 1[  ] \"MF0;leaf\" ( )\n");
  EXPECT_THAT(topology, HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("bandwidth: 12.5 GB/s  # read: f\n"));
}

TEST(PrintedFabric, CutOutputsAreRefused) {
  const std::string whole = "vendid=0x2c9\n" + leaf_of_ibnetdiscover(1, "4xNDR") +
                            leaf_of_ibnetdiscover(2, "4xNDR") + spine_of_ibnetdiscover;
  const std::string hint = "\nhint: the whole output of ibnetdiscover: this seems to be cut\n";
  EXPECT_EQ(printed_topology(whole.substr(0, whole.find("Switch\t8 \"S-9\""))),
            "f: error: switch 'S-1' has links to 'S-9', which is not described" + hint);
  EXPECT_EQ(printed_topology(whole.substr(0, whole.find("[3]\t\"S-2\"[3]"))),
            "f: error: switch 'S-2' has 2 links to 'S-9', which has 0 back" + hint);
  EXPECT_THAT(
      printed_topology(whole.substr(0, whole.find("Ca\t1 \"H-21"))),
      HasSubstr("# left out: f: that 2 adapters are named but not described: is it whole?"));
  EXPECT_EQ(printed_topology(two_leaves.substr(0, two_leaves.find("Switch: 0xc"))),
            "f: error: 'spine' has several links, but is not described\n"
            "hint: the whole output of iblinkinfo: this seems to be cut\n");
}

TEST(PrintedFabric, SwitchesWithoutHostsAreRefused) {
  EXPECT_THAT(printed_topology("Switch: 0xa s:\n" + port_of(1, 1, "53.125", 2, "t") +
                               "Switch: 0xb t:\n" + port_of(2, 1, "53.125", 1, "s")),
              HasSubstr("f: error: no switch with hosts\nhint: the whole output of iblinkinfo"));
}

const std::string matrix_of_two =
    "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31\n";

TEST(PrintedFabric, TheTableBeforeAMatrixNamesTheGpu) {
  for (const char* before :
       {"|   0  NVIDIA H200                    On  |   00000000:0A:00.0 Off |      0 |\n"
        "| N/A   30C    P0             75W /  700W |       1MiB / 143771MiB |\n",
        "GPU 0: NVIDIA H200 (UUID: GPU-1)\n", "|   0  NVIDIA H200   |\n"}) {
    EXPECT_THAT(printed_topology(before + matrix_of_two),
                HasSubstr("  gpu: h200-measured  # read: f: NVIDIA H200\n"));
  }
  EXPECT_THAT(
      printed_topology(matrix_of_two + "|    0   N/A  N/A      1234      C   python    1MiB |\n"
                                       "|    0      1234      C   python    1MiB |\n"),
      HasSubstr("  gpu: h100-measured  # assumed: 18 NVLinks"));
}

TEST(PrintedFabric, OtherOutputsAreNamedWithWhatToGiveInstead) {
  const std::vector<std::array<std::string, 3>> outputs = {
      {"CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n", "ibstat", "ibnetdiscover"},
      {"hca_id: mlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n", "ibv_devinfo", "ibnetdiscover"},
      {"SW   3  1 0x1 4x NDR - CA   10  1 0x2 ( 'leaf' - 'n1 mlx5_0' )\n", "ibnetdiscover -p",
       "ibnetdiscover without -p"},
      {"| NVIDIA-SMI 560.35.03   Driver Version: 560.35.03   CUDA Version: 12.6 |\n", "nvidia-smi",
       "nvidia-smi topo -m"},
      {"GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n",
       "nvidia-smi -L or nvlink", "nvidia-smi topo -m"},
      {"18:00.0 3D controller: NVIDIA Corporation (rev a1)\n", "lspci",
       "nvidia-smi topo -m or lstopo --of xml"},
      {"Name:  a\nLabels: b=c\nCapacity:\n  cpu: 1\n", "kubectl describe",
       "kubectl get nodes -o yaml"},
      {"NAME   STATUS   ROLES    AGE\ngpu-0  Ready    <none>   10d\n", "kubectl get nodes",
       "kubectl get nodes -o yaml"},
      {"NodeName=n1 Arch=x86_64 CPUTot=8\n", "Slurm about its nodes", "scontrol show topology"},
      {"mlx5_0 port 1 ==> ib0 (Up)\n", "ibdev2netdev", "ibnetdiscover"},
      {"======== Autoscaler status ========\nNode status\nActive:\n 2 node_a\n", "ray status",
       "nvidia-smi topo -m"},
      {"all:\n  children:\n    gpu:\n      hosts:\n        n1:\n", "ansible-inventory",
       "nvidia-smi topo -m"}};
  for (const auto& [text, program, instead] : outputs) {
    EXPECT_EQ(printed_topology(text),
              fmt::format("f: error: is the output of {}, which is not read\nhint: moesim topology "
                          "import reads that of {}\n",
                          program, instead));
  }
}

TEST(PrintedFabric, ListsOfHostsDoNotSayHowTheyAreJoined) {
  for (const char* text : {"node01 slots=8\nnode02 slots=8\n", "# two\nnode01:8\nnode02:8\n"}) {
    EXPECT_THAT(printed_topology(text), HasSubstr("is a host file of mpirun, which does not say"));
  }
  EXPECT_THAT(printed_topology("[gpu]\nnode[01:16] gpus=8\n[gpu:vars]\nif=eth0\n"),
              HasSubstr("is an inventory of hosts, which does not say"));
  EXPECT_THAT(printed_topology("a: b: c\n"),
              HasSubstr("not a description of a cluster that is known"));
}

}  // namespace
}  // namespace moesim
