// SPDX-License-Identifier: Apache-2.0
// Descriptions by others and the whole topologies that they become.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/topology/import/import.h"

namespace moesim {
namespace {

struct Description {
  std::string name, text;
};

/// What is imported, without the lines that all topologies begin with.
std::string topology_from(const std::vector<Description>& files) {
  std::vector<ClusterFacts> facts;
  for (const Description& file : files) facts.push_back(parse_facts(file.text, file.name));
  const std::string text = topology_text(facts, "");
  return text.substr(text.find('\n') + 1);
}

TEST(WholeText, MatrixOfPairsAndThreeLevelsOfSwitches) {
  EXPECT_EQ(
      topology_from(
          {{"smi",
            R"(        GPU0    GPU1    GPU2    GPU3    NIC0    NIC1    NIC2    CPU Affinity    NUMA Affinity
GPU0     X      NV4     SYS     SYS     PIX     SYS     SYS   0-47    0
GPU1    NV4      X      SYS     SYS     NODE    SYS     SYS   0-47    0
GPU2    SYS     SYS      X      NV4     SYS     NODE    SYS   48-95   1
GPU3    SYS     SYS     NV4      X      SYS     PXB     SYS   48-95   1
NIC0    PIX     NODE    SYS     SYS      X      SYS SYS
NIC1    SYS     SYS     NODE    PXB     SYS      X SYS
NIC2    SYS     SYS     SYS     SYS     SYS      X SYS
)"},
           {"tree", R"(SwitchName=l1 Nodes=n[1-2]
SwitchName=l2 Nodes=n[3-4]
SwitchName=l3 Nodes=n[5-6]
SwitchName=l4 Nodes=n[7-8]
SwitchName=s1 Switches=l[1-2]
SwitchName=s2 Switches=l[1-2]
SwitchName=s3 Switches=l[3-4]
SwitchName=s4 Switches=l[3-4]
SwitchName=c1 Switches=s[1-4]
SwitchName=c2 Switches=s[1-4]
SwitchName=c3 Switches=s[1-4]
)"}}),
      R"(# left out: smi: 1 more NIC, slower or farther from the GPUs
description: 8 nodes of 4 GPUs
source: 'smi (nvidia-smi topo -m), tree (Slurm''s topology.conf)'
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 8  # read: tree
node:
  gpu: h100-measured  # assumed: no file says; --gpu does
  gpus: 4  # read: smi
  nvlink:
    kind: pairs  # read: smi
    bandwidth: 100 GB/s  # assumed: 4 links of 25 GB/s by data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 64 GB/s  # assumed: x16 by data sheet
    latency: 0.5 us  # assumed: per hop
    sockets: 2  # read: smi
    socket_link: {bandwidth: 20 GB/s, latency: 0.5 us}  # assumed: between sockets
  nics:
    count: 2  # read: smi
    bandwidth: 50 GB/s  # assumed: usual with this GPU
    latency: 1 us  # assumed: to the first switch
fabric:
  kind: fat-tree  # read: tree
  nodes_per_leaf: 2  # read: tree
  leaves_per_pod: 2  # read: tree
  spines: 2  # read: tree
  cores: 4  # read: tree: a multiple of spines
  oversubscription: 1  # assumed: no file has rates of links
  latency: 1 us  # assumed: of a link between switches
)");
}

TEST(WholeText, TwoSocketsOfTwoSwitchesAndNicsThatDoNotShareEvenly) {
  EXPECT_EQ(topology_from({{"nccl", R"(<system version="1"><cpu numaid="0">
<pci class="0x060400"><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="86"/></pci><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="86"/></pci></pci>
<pci class="0x060400"><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="2" sm="86"/></pci><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8"><gpu dev="3" sm="86"/></pci></pci>
<nic><net name="a" speed="100000"/></nic></cpu>
<cpu numaid="1">
<pci class="0x060400"><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="4" sm="86"/></pci><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="5" sm="86"/></pci></pci>
<pci class="0x060400"><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="6" sm="86"/></pci><pci class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="7" sm="86"/></pci></pci>
<nic><net name="b" speed="100000"/><net name="c" speed="100000"/></nic><nic><net name="d" speed="1000"/></nic></cpu>
<cpu numaid="2"/></system>
)"}}),
            R"(# left out: nccl: 1 more NIC, slower or farther from the GPUs
description: 1 node of 8 GPUs
source: 'nccl (NCCL''s topology dump)'
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 1  # assumed: the files describe one node
node:
  gpu: a6000  # assumed: nccl says compute capability 8.6, 0 NVLinks
  gpus: 8  # read: nccl
  pcie:
    bandwidth: 32 GB/s  # read: nccl
    latency: 0.5 us  # assumed: per hop
    sockets: 2  # read: nccl
    switches: 2  # read: nccl: per socket
    socket_link: {bandwidth: 20 GB/s, latency: 0.5 us}  # assumed: between sockets
  nics:
    count: 2  # assumed: nccl has 3, which 8 GPUs cannot share evenly
    bandwidth: 12.5 GB/s  # read: nccl
    latency: 1 us  # assumed: to the first switch
)");
}

TEST(WholeText, BlocksOfTheDefaultTopologyAreNodes) {
  EXPECT_EQ(topology_from({{"blocks", R"(- topology: old
  flat: true
- topology: t
  cluster_default: true
  block:
    blocks:
      - {block: b1, nodes: "n[01-18]"}
      - {block: b2, nodes: "n[19-36]"}
      - {block: b3, nodes: "n[37-45]"}
- topology: more
  flat: true
)"}}),
            R"(# left out: blocks: 2 other topologies of the file
description: 3 nodes of 72 GPUs
source: 'blocks (Slurm''s topology.yaml)'
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 3  # read: blocks: 45 hosts in NVLink domains of 18
node:
  gpu: gb200-training  # assumed: NVLink joins 18 hosts, as in racks; --gpu says which
  gpus: 72  # assumed: 4 of each host, as in racks of NVL72
  nvlink:
    kind: switch  # assumed: no file says
    bandwidth: 900 GB/s  # assumed: 18 links of 50 GB/s by data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 64 GB/s  # assumed: x16 by data sheet
    latency: 0.5 us  # assumed: per hop
  nics:
    count: 72  # assumed: one per GPU
    bandwidth: 50 GB/s  # assumed: usual with this GPU
    latency: 1 us  # assumed: to the first switch
fabric:
  kind: switch  # assumed: no file says; a switch without a bandwidth limit
)");
}

TEST(WholeText, DevicesOfTwoPackagesOneOfThemANic) {
  EXPECT_EQ(topology_from({{"hwloc", R"(<topology version="2.0"><object type="Machine">
<object type="Package"><object type="Bridge">
<object type="PCIDev" pci_type="0302 [1002:74a1] [10de:16c1] a1" pci_link_speed="31.5"/>
<object type="PCIDev" pci_type="0300 [1a03:2000] [] 41" pci_link_speed="0.0"/>
<object type="PCIDev" pci_type="0200 [8086:1563] [] 01"><object type="OSDev" osdev_type="2" name="eth0"/></object>
</object></object>
<object type="Package"><object type="Bridge">
<object type="PCIDev" pci_type="0302 [1002:74a1] [10de:16c1] a1" pci_link_speed="63.0"/>
<object type="PCIDev" pci_type="0207 [15b3:1021] [] 00"><object type="OSDev" osdev_type="3" name="mlx5_0"/></object>
</object></object>
</object></topology>
)"}}),
            R"(description: 1 node of 2 GPUs
source: 'hwloc (lstopo''s XML)'
network: infiniband  # read: hwloc
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 1  # assumed: the files describe one node
node:
  gpu: mi300x  # read: hwloc: AMD Instinct MI300X
  gpus: 2  # read: hwloc
  nvlink:
    kind: mesh  # assumed: no file says
    bandwidth: 64 GB/s  # assumed: 1 link of 64 GB/s by data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 63 GB/s  # read: hwloc
    latency: 0.5 us  # assumed: per hop
  nics:
    count: 1  # read: hwloc
    bandwidth: 50 GB/s  # assumed: usual with this GPU
    latency: 1 us  # assumed: to the first switch
)");
}

TEST(WholeText, AdaptersOfAHostAreNicsAndAggregationNodesAreNone) {
  EXPECT_EQ(topology_from({{"ib", R"(vendid=0x2c9
switchguid=0x1(1)
Switch	4 "S-1"	# "leaf1" base port 0 lid 1
[1]	"H-a0"[1](a0)		# "a mlx5_0" lid 5 4xHDR
[2]	"H-b0"[1](b0)		# "b mlx5_0" lid 6 4xHDR
[3]	"H-x"[1](x)		# "Mellanox Technologies Aggregation Node" lid 9 4xHDR
Switch	4 "S-2"	# "leaf2" base port 0 lid 2
[1]	"H-a1"[1](a1)		# "a mlx5_1" lid 7 12xHDR
[2]	"H-c"[1](b1)		# lid 8 1xEDR
Rt	1 "R-1"
[1]	"H-q"[1]		# "q" lid 9 4xHDR
Ca	1 "H-c"		# "b HCA-2"
[1](b1) 	"S-2"[2]		# lid 8 4xHDR
)"}}),
            R"(# left out: ib: that 2 of 4 links to hosts are not 25 GB/s, such as 75 GB/s of a
# left out: ib: that 3 adapters are named but not described: is it whole?
description: 2 nodes of 8 GPUs
source: 'ib (ibnetdiscover)'
network: infiniband  # read: ib
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 2  # read: ib
node:
  gpu: h100-measured  # assumed: no file says; --gpu does
  gpus: 8  # assumed: no file says
  nvlink:
    kind: switch  # assumed: no file says
    bandwidth: 450 GB/s  # assumed: 18 links of 25 GB/s by data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 64 GB/s  # assumed: x16 by data sheet
    latency: 0.5 us  # assumed: per hop
  nics:
    count: 2  # read: ib
    bandwidth: 25 GB/s  # read: ib
    latency: 1 us  # assumed: to the first switch
fabric:
  kind: rail  # read: ib: every NIC of a host is at another leaf
  cross_rail: pxn  # read: ib: rails are apart
  nodes_per_leaf: 2  # read: ib
)");
}

TEST(WholeText, LabelsNameThreeLevelsOfSwitches) {
  EXPECT_EQ(topology_from({{"k8s", R"(kind: List
items:
- {kind: Node, metadata: {name: a, labels: {amd.com/gpu.count: '8', amd.com/gpu.product-name: AMD_Instinct_MI300X, network.topology.nvidia.com/leaf: l1, network.topology.nvidia.com/spine: s1, network.topology.nvidia.com/core: c}}}
- {kind: Node, metadata: {name: b, labels: {amd.com/gpu.product-name: AMD_Instinct_MI300X, network.topology.nvidia.com/leaf: l2, network.topology.nvidia.com/spine: s1, network.topology.nvidia.com/core: c}}, status: {capacity: {amd.com/gpu: 8}}}
- {kind: Node, metadata: {name: c, labels: {amd.com/gpu.count: '8', amd.com/gpu.product-name: AMD_Instinct_MI300X, network.topology.nvidia.com/leaf: l3, network.topology.nvidia.com/spine: s2, network.topology.nvidia.com/core: c}}}
- {kind: Node, metadata: {name: d, labels: {}}}
- {kind: Node, metadata: {name: e, labels: {nvidia.com/gpu.count: x}}}
)"}}),
            R"(# left out: k8s: 2 nodes without GPUs
description: 3 nodes of 8 GPUs
source: 'k8s (a Kubernetes list of nodes)'
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 3  # read: k8s
node:
  gpu: mi300x  # read: k8s: AMD_Instinct_MI300X
  gpus: 8  # read: k8s
  nvlink:
    kind: mesh  # assumed: no file says
    bandwidth: 64 GB/s  # assumed: 1 link of 64 GB/s by data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 64 GB/s  # assumed: x16 by data sheet
    latency: 0.5 us  # assumed: per hop
  nics:
    count: 8  # assumed: one per GPU
    bandwidth: 50 GB/s  # assumed: usual with this GPU
    latency: 1 us  # assumed: to the first switch
fabric:
  kind: fat-tree  # read: k8s
  nodes_per_leaf: 1  # read: k8s
  leaves_per_pod: 2  # read: k8s
  spines: 1  # assumed: k8s has one, which may stand for several
  cores: 1  # read: k8s: a multiple of spines
  oversubscription: 1  # assumed: no file has rates of links
  latency: 1 us  # assumed: of a link between switches
)");
}

TEST(WholeText, ChannelsShareTheRateOfNics) {
  EXPECT_EQ(
      topology_from(
          {{"graph",
            R"(<graphs version="1"><graph id="0" nchannels="4" speedintra="20" speedinter="12.5" typeintra="NVL"><channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="1"/></channel></graph></graphs>
)"}}),
      R"(description: 1 node of 2 GPUs
source: 'graph (NCCL''s graph dump)'
exchange_overhead: 12 us  # assumed: as h100-rail; measure it
nodes: 1  # assumed: the files describe one node
node:
  gpu: h100-measured  # assumed: no file says; --gpu does
  gpus: 2  # read: graph
  nvlink:
    kind: switch  # read: graph
    bandwidth: 80 GB/s  # read: graph: what NCCL plans with, less than the data sheet
    latency: 0.5 us  # assumed: per hop
  pcie:
    bandwidth: 64 GB/s  # assumed: x16 by data sheet
    latency: 0.5 us  # assumed: per hop
  nics:
    count: 2  # read: graph
    bandwidth: 25 GB/s  # read: graph
    latency: 1 us  # assumed: to the first switch
)");
}

}  // namespace
}  // namespace moesim
