// SPDX-License-Identifier: Apache-2.0
// Mistakes in topology files, with all that is said about them; and fields without effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

const std::string node =
    "node:\n"
    "  gpu: x\n"
    "  gpus: 4\n"
    "  nvlink: {kind: switch, bandwidth: 1 GB/s, latency: 1 us}\n"
    "  nics: {count: 2, bandwidth: 1 GB/s, latency: 1 us}\n";

TEST(Reader, NodesNeedAFabric) {
  EXPECT_EQ(errors("nodes: 2\n" + node),
            "t.yaml: error: nothing joins the 2 nodes\n"
            "hint: add 'fabric', such as fabric: {kind: switch}\n");
}

TEST(Reader, DescriptionsByOthersAreToBeImported) {
  const TemporaryFolder folder;
  const auto mistakes_in = [&](const std::string& text) {
    const std::string path = folder.path() + "/t.yaml";
    write_file(path, text);
    try {
      read_topology(path);
    } catch (const Error& e) {
      return std::string(e.what()).substr(folder.path().size());
    }
    return std::string();
  };
  for (const char* text :
       {"SwitchName=leaf Nodes=n[1-2]\n", "> SwitchName=a Nodes=n1\n> \n> # b\n"}) {
    EXPECT_NE(mistakes_in(text).find(", not a topology\nhint: moesim "), std::string::npos);
  }
  EXPECT_EQ(mistakes_in("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)\n"),
            "/t.yaml: error: is the output of nvidia-smi -L or nvlink, which is not read\n"
            "hint: moesim topology import reads that of nvidia-smi topo -m\n");
  EXPECT_NE(mistakes_in(R"({"apiVersion":"v1","kind":"List","items":[]})").find("not a topology"),
            std::string::npos);
  EXPECT_NE(mistakes_in("# GPU 0: x (UUID: y)\nnodes: 2\n" + node).find("nothing joins"),
            std::string::npos)
      << "a topology with a comment";
  EXPECT_EQ(mistakes_in("nodes: 2\n" + node),
            "/t.yaml: error: nothing joins the 2 nodes\n"
            "hint: add 'fabric', such as fabric: {kind: switch}\n");
}

TEST(Reader, AllMistakesOfANodeAreReported) {
  EXPECT_EQ(errors("nodes: 2\n"
                   "node:\n"
                   "  gpu: x\n"
                   "  gpus: 4\n"
                   "  pcie: {bandwidth: 10, latency: 1 us, sockets: 3}\n"
                   "  nics: {count: 2, bandwidth: 1 GB/s, latency: 1}\n"
                   "fabric: {kind: torus, dimensions: [2, 2], bandwidth: 1 GB/s, latency: 1 us}\n"),
            "t.yaml:5:9: error: 4 GPUs cannot be shared out evenly to 3 sockets\n"
            "    pcie: {bandwidth: 10, latency: 1 us, sockets: 3}\n"
            "          ^\n"
            "hint: a number of GPUs that it divides\n"
            "t.yaml:5:9: error: 'node.pcie' lacks the key 'socket_link'\n"
            "    pcie: {bandwidth: 10, latency: 1 us, sockets: 3}\n"
            "          ^\n"
            "t.yaml:5:21: error: 'node.pcie.bandwidth' needs a unit\n"
            "    pcie: {bandwidth: 10, latency: 1 us, sockets: 3}\n"
            "                      ^\n"
            "hint: a bandwidth such as 50 GB/s or 400 Gbit/s\n"
            "t.yaml:6:9: error: 2 NICs cannot be shared out evenly to 3 sockets\n"
            "    nics: {count: 2, bandwidth: 1 GB/s, latency: 1}\n"
            "          ^\n"
            "hint: a count that divides or is a multiple\n"
            "t.yaml:6:48: error: 'node.nics.latency' needs a unit\n"
            "    nics: {count: 2, bandwidth: 1 GB/s, latency: 1}\n"
            "                                                 ^\n"
            "hint: a time such as 2 us\n"
            "t.yaml:7:35: error: 2 x 2 = 4 routers for 2 nodes\n"
            "  fabric: {kind: torus, dimensions: [2, 2], bandwidth: 1 GB/s, latency: 1 us}\n"
            "                                    ^\n"
            "hint: a torus has one router per node\n");
}

TEST(Reader, GpusMayHaveAPriceAndAPower) {
  const std::string one = "nodes: 1\n" + node;
  const auto costs = [&](const std::string& text) {
    return parse_topology(one + text, "t.yaml").costs;
  };
  EXPECT_EQ(costs("price: 2.5 $/h\npower: 0.7 kW\n"), (GpuCosts{2.5, 700}));
  EXPECT_EQ(costs(""), GpuCosts{});
  EXPECT_EQ(errors(one + "price: 2.5\npower: -1 W\n"),
            "t.yaml:7:8: error: 'price' needs a unit\n"
            "  price: 2.5\n"
            "         ^\n"
            "hint: a price of a GPU such as 2.5 $/h\n"
            "t.yaml:8:8: error: 'power' is -1 W, must be above 0 and at most 100000 W\n"
            "  power: -1 W\n"
            "         ^\n");
  EXPECT_THAT(errors(one + "price: 2 k$/h\n"), ::testing::HasSubstr("unknown unit 'k$/h'"));
  EXPECT_EQ(errors(one + "price: 2 EUR/h\npower: much\n"),
            "t.yaml:7:8: error: 'price': unknown unit 'EUR/h'\n"
            "  price: 2 EUR/h\n"
            "         ^\n"
            "hint: a price of a GPU such as 2.5 $/h\n"
            "t.yaml:8:8: error: 'power' is not a number with a unit\n"
            "  power: much\n"
            "         ^\n"
            "hint: a power of a GPU such as 700 W\n");
}

TEST(Reader, AWanNeedsAKind) {
  EXPECT_EQ(errors("data_centers: 2\nwan: {bandwidth: 1 GB/s, latency: 1 ms}\nnodes: 1\n" + node),
            "t.yaml:2:6: error: 'wan' lacks the key 'kind'\n"
            "  wan: {bandwidth: 1 GB/s, latency: 1 ms}\n"
            "       ^\n"
            "hint: kind: one of hub, mesh, pairs\n");
}

TEST(Reader, UnknownNamesGetSuggestions) {
  EXPECT_EQ(errors("nodes: 2\n" + node + "fabric: {kind: rail, cross_rial: spin}\n"),
            "t.yaml:7:22: error: unknown key 'cross_rial' in 'fabric'\n"
            "  fabric: {kind: rail, cross_rial: spin}\n"
            "                       ^\n"
            "hint: did you mean 'cross_rail'?\n");
  EXPECT_EQ(errors("nodes: 2\n" + node + "fabric: {kind: leaf_spine}\n"),
            "t.yaml:7:16: error: 'fabric.kind' cannot be 'leaf_spine'\n"
            "  fabric: {kind: leaf_spine}\n"
            "                 ^\n"
            "hint: did you mean 'leaf-spine'?\n");
}

TEST(Reader, NicsMustDivide) {
  EXPECT_EQ(errors("nodes: 1\n"
                   "node:\n"
                   "  gpu: x\n"
                   "  gpus: 4\n"
                   "  nvlink: {kind: switch, bandwidth: 1 GB/s, latency: 1 us}\n"
                   "  nics: {count: 3, bandwidth: 1 GB/s, latency: 1 us}\n"),
            "t.yaml:6:9: error: 3 NICs cannot be shared evenly by 4 GPUs\n"
            "    nics: {count: 3, bandwidth: 1 GB/s, latency: 1 us}\n"
            "          ^\n"
            "hint: a count that divides or is a multiple\n");
}

TEST(Reader, GpusNeedAWayToEachOther) {
  EXPECT_EQ(errors("nodes: 1\nnode: {gpu: x, gpus: 4}\n"),
            "t.yaml:2:7: error: nothing joins the GPUs of the node\n"
            "  node: {gpu: x, gpus: 4}\n"
            "        ^\n"
            "hint: add 'pcie', or 'nvlink' of kind switch or mesh\n");
}

TEST(Reader, DataCentersNeedAWan) {
  EXPECT_EQ(errors("data_centers: 2\nnodes: 1\n" + node),
            "t.yaml:1:15: error: nothing joins the data centers\n"
            "  data_centers: 2\n"
            "                ^\n"
            "hint: add 'wan'\n");
}

TEST(Reader, PairsOfDataCentersAreCheckedOneByOne) {
  const std::string wire = "bandwidth: 1 GB/s, latency: 1 ms}\n";
  EXPECT_EQ(errors("data_centers: 3\nnodes: 1\n" + node +
                   "wan:\n"
                   "  kind: pairs\n"
                   "  pairs:\n"
                   "    - {between: [0, 1], " +
                   wire + "    - {between: [1, 0], " + wire + "    - {between: [1, 3], " + wire +
                   "    - {between: [2, 2], " + wire),
            "t.yaml:12:7: error: 'wan.pairs.1' is there twice\n"
            "      - {between: [1, 0], bandwidth: 1 GB/s, latency: 1 ms}\n"
            "        ^\n"
            "t.yaml:13:21: error: 'wan.pairs.2.between.1' is 3, must be between 0 and 2\n"
            "      - {between: [1, 3], bandwidth: 1 GB/s, latency: 1 ms}\n"
            "                      ^\n"
            "t.yaml:14:17: error: 'wan.pairs.3.between' must name two data centers\n"
            "      - {between: [2, 2], bandwidth: 1 GB/s, latency: 1 ms}\n"
            "                  ^\n"
            "hint: such as [0, 1]\n");
}

TEST(Reader, UnjoinedDataCentersCannotBeReached) {
  const std::string wire = "bandwidth: 1 GB/s, latency: 1 ms}";
  EXPECT_EQ(errors("data_centers: 3\nnodes: 1\n" + node +
                   "wan:\n  kind: pairs\n  pairs: [{between: [0, 1], " + wire + "]\n"),
            "t.yaml:10:10: error: no pair joins data center 2 to another\n"
            "    pairs: [{between: [0, 1], bandwidth: 1 GB/s, latency: 1 ms}]\n"
            "           ^\n"
            "hint: every data center needs a pair; they count from 0\n");
  EXPECT_EQ(errors("data_centers: 4\nnodes: 1\n" + node + "wan:\n  kind: pairs\n  pairs:\n" +
                   "    - {between: [0, 1], " + wire + "\n    - {between: [2, 3], " + wire + "\n"),
            "t.yaml: error: t: dc2.node0.gpu0 cannot reach dc0.node0.gpu0\n"
            "hint: GPUs and NICs of other hosts pass nothing on; look at the links out of the one "
            "and into the other\n");
}

TEST(Reader, TheExplicitFormChecksNamesAndClasses) {
  EXPECT_EQ(errors("vertices:\n"
                   "  - {name: gpu0, kind: gpu, gpu: x}\n"
                   "  - {name: gpu1, kind: gpu, host: b, gpu: x}\n"
                   "  - {name: nic1, kind: nic, host: b}\n"
                   "  - {name: nic1, kind: nick, host: b}\n"
                   "links:\n"
                   "  - {from: gpu0, to: gpu1, class: c, bandwidth: 1 GB/s, latency: 1 us}\n"
                   "  - {from: gpu1, to: nic1, class: c, bandwidth: 1 GB/s, latency: 1 us}\n"
                   "  - {from: gpu1, to: nci1, class: d, bandwidth: 0 GB/s, latency: 1 us}\n"),
            "t.yaml:2:5: error: GPU 'gpu0' has no host\n"
            "    - {name: gpu0, kind: gpu, gpu: x}\n"
            "      ^\n"
            "hint: add 'host', any name\n"
            "t.yaml:5:5: error: two vertices are named 'nic1'\n"
            "    - {name: nic1, kind: nick, host: b}\n"
            "      ^\n"
            "hint: links need to tell them apart\n"
            "t.yaml:5:24: error: 'vertices.3.kind' cannot be 'nick'\n"
            "    - {name: nic1, kind: nick, host: b}\n"
            "                         ^\n"
            "hint: did you mean 'nic'?\n"
            "t.yaml:8:5: error: class 'c' has links both inside a host and outside\n"
            "    - {from: gpu1, to: nic1, class: c, bandwidth: 1 GB/s, latency: 1 us}\n"
            "      ^\n"
            "hint: give links of another tier another class\n"
            "t.yaml:9:22: error: there is no vertex 'nci1'\n"
            "    - {from: gpu1, to: nci1, class: d, bandwidth: 0 GB/s, latency: 1 us}\n"
            "                       ^\n"
            "hint: did you mean 'nic1'?\n"
            "t.yaml:9:49: error: 'links.2.bandwidth' is 0 GB/s, must be between 1 and "
            "1000000000000000 B/s\n"
            "    - {from: gpu1, to: nci1, class: d, bandwidth: 0 GB/s, latency: 1 us}\n"
            "                                                  ^\n");
}

TEST(Reader, TooManyGpusAreRefusedBeforeTheyAreBuilt) {
  EXPECT_EQ(errors("nodes: 1000000\n" + node + "fabric: {kind: switch}\n"),
            "t.yaml: error: the cluster has 4000000 GPUs, at most 1000000 are possible\n"
            "hint: fewer nodes or data centers\n");
  EXPECT_EQ(errors("nodes: 1\nnode: {gpu: x, gpus: 1400, nvlink: {kind: mesh, bandwidth: 1 GB/s, "
                   "latency: 1 us}}\n"),
            "t.yaml: error: the routes inside a host of 1400 GPUs, 0 ports, 1400 vertices and "
            "1958600 links are too many to compute\n"
            "hint: fewer GPUs or links in a host\n");
  const auto limited = [](const std::string& centers, const ClusterLimits& limits) {
    return error_of([&] {
      parse_topology(
          "data_centers: " + centers + "\nnodes: 2\n" + node +
              "fabric: {kind: switch}\nwan: {kind: hub, bandwidth: 1 GB/s, latency: 1 ms}\n",
          "t.yaml", {}, limits);
    });
  };
  EXPECT_EQ(limited("3", {.gpus = 24}), "");
  EXPECT_EQ(limited("3", {.gpus = 23}),
            "t.yaml: error: the cluster has 24 GPUs, at most 23 are possible\n"
            "hint: fewer nodes or data centers\n");
  EXPECT_NE(limited("3", {.vertices = 20}).find("at most 20 are possible"), std::string::npos);
  EXPECT_NE(limited("3", {.cables = 20}).find("cables, at most 20 are possible"),
            std::string::npos);
  std::string cables =
      "vertices:\n  - {name: a, kind: gpu, host: a, gpu: x}\n"
      "  - {name: b, kind: gpu, host: b, gpu: x}\nlinks:\n";
  for (int i = 0; i < 12'000; ++i) {
    cables += "  - {from: a, to: b, class: c, bandwidth: 1 GB/s, latency: 1 us}\n";
  }
  EXPECT_NE(errors(cables).find("the routes of 2 GPUs at so many switches are too many"),
            std::string::npos);
  // Beyond any link: a mistyped unit or exponent.
  EXPECT_EQ(
      errors("nodes: 1\nnode: {gpu: x, gpus: 2, nvlink: {kind: switch, bandwidth: 1e30 GB/s, "
             "latency: 90 s}}\n"),
      "t.yaml:2:59: error: 'node.nvlink.bandwidth' is 1e30 GB/s, must be between 1 and "
      "1000000000000000 B/s\n"
      "  node: {gpu: x, gpus: 2, nvlink: {kind: switch, bandwidth: 1e30 GB/s, latency: 90 s}}\n"
      "                                                            ^\n"
      "t.yaml:2:79: error: 'node.nvlink.latency' is 90 s, must be between 0 and 60 s\n"
      "  node: {gpu: x, gpus: 2, nvlink: {kind: switch, bandwidth: 1e30 GB/s, latency: 90 s}}\n"
      "                                                                                ^\n");
}

TEST(Reader, FieldsWithoutEffectAreNamed) {
  EXPECT_EQ(warnings("nodes: 2\n" + node +
                     "fabric: {kind: leaf-spine, nodes_per_leaf: 4, spines: 2,\n"
                     "         oversubscription: 2}\n"
                     "wan: {kind: hub}\n"),
            "t.yaml:7:55: warning: 'fabric.spines' has no effect: all 2 nodes hang off one leaf\n"
            "  fabric: {kind: leaf-spine, nodes_per_leaf: 4, spines: 2,\n"
            "                                                        ^\n"
            "t.yaml:8:28: warning: 'fabric.oversubscription' has no effect: all 2 nodes hang off "
            "one leaf\n"
            "           oversubscription: 2}\n"
            "                             ^\n"
            "t.yaml:9:6: warning: 'wan' has no effect: there is one data center\n"
            "  wan: {kind: hub}\n"
            "       ^\n");
  EXPECT_EQ(warnings("nodes: 2\n"
                     "node: {gpu: x, gpus: 1, nics: {count: 1, bandwidth: 1 GB/s, latency: 1 us}}\n"
                     "fabric: {kind: rail, cross_rail: spine}\n"),
            "t.yaml:3:34: warning: 'fabric.cross_rail' has no effect: with one NIC per node there "
            "is one rail\n"
            "  fabric: {kind: rail, cross_rail: spine}\n"
            "                                   ^\n");
  EXPECT_EQ(warnings("nodes: 1\n" + node + "fabric: {kind: switch}\n"),
            "t.yaml:7:9: warning: 'fabric' has no effect: there is one node\n"
            "  fabric: {kind: switch}\n"
            "          ^\n");
  EXPECT_EQ(warnings("nodes: 1\n" + node),
            "t.yaml:6:9: warning: 'node.nics' has no effect: there is one node\n"
            "    nics: {count: 2, bandwidth: 1 GB/s, latency: 1 us}\n"
            "          ^\n");
  EXPECT_EQ(warnings("nodes: 4\n" + node +
                     "fabric: {kind: fat-tree, nodes_per_leaf: 2, leaves_per_pod: 2,\n"
                     "         cores: 2, latency: 1 us}\n"),
            "t.yaml:8:17: warning: 'fabric.cores' has no effect: all 2 leaves are in one pod\n"
            "           cores: 2, latency: 1 us}\n"
            "                  ^\n");
}

// With it NICs are at the GPU, without it at a socket, unless 'sockets' says where.
TEST(Reader, SaysWhatNvlinkOfOneGpuDoes) {
  const auto text = [](const std::string& nvlink, const std::string& sockets) {
    return "nodes: 2\nnode:\n  gpu: x\n  gpus: 1\n" + nvlink +
           "  pcie: {bandwidth: 50 GB/s, latency: 1 us" + sockets +
           "}\n  nics: {count: 1, bandwidth: 50 GB/s, latency: 1 us}\nfabric: {kind: switch}\n";
  };
  const std::string nvlink = "  nvlink: {kind: switch, bandwidth: 400 GB/s, latency: 1 us}\n";
  const auto hops = [&](const std::string& made) {
    return parse(made).paths(GpuId(0), GpuId(1)).front().links.size();
  };
  EXPECT_THAT(
      warnings(text(nvlink, "")),
      ::testing::HasSubstr("joins nothing: a node has one GPU; it only keeps NICs at the GPU"));
  EXPECT_LT(hops(text(nvlink, "")), hops(text("", "")));
  EXPECT_THAT(warnings(text(nvlink, ", sockets: 1")), ::testing::HasSubstr("has no effect"));
  EXPECT_EQ(hops(text(nvlink, ", sockets: 1")), hops(text("", "")));
}

TEST(Reader, OverridesChangeFields) {
  const TopologyFile file =
      parse_topology("nodes: 2\n" + node + "fabric: {kind: switch}\n", "t.yaml",
                     {parse_override("nodes=3"), parse_override("node.gpus=2")});
  EXPECT_EQ(file.topology.gpu_count(), 6);
  EXPECT_EQ(file.topology.name(), "t");
  EXPECT_NE(file.resolved.find("\"nodes\":3"), std::string::npos) << file.resolved;
}

TEST(Reader, CrowdedLinksYieldLess) {
  const auto text = [&](const std::string& crowded) {
    return "nodes: 1\nnode:\n  gpu: x\n  gpus: 4\n  nvlink:\n    kind: switch\n"
           "    bandwidth: 10 GB/s\n    latency: 1 us\n    crowded: " +
           crowded + "\n";
  };
  EXPECT_EQ(
      errors(text("{pairs: 1, bandwidth: 11 GB/s}")),
      "t.yaml:9:14: error: a link crowded from 1 pairs on cannot be so at 1 already\n"
      "      crowded: {pairs: 1, bandwidth: 11 GB/s}\n"
      "               ^\n"
      "hint: pairs: more than 'from'\n"
      "t.yaml:9:36: error: a crowded link cannot be faster than the 10 GB/s it has otherwise\n"
      "      crowded: {pairs: 1, bandwidth: 11 GB/s}\n"
      "                                     ^\n"
      "hint: swap the two bandwidths\n");
  const Topology t = std::move(parse_topology(text("{pairs: 3, bandwidth: 4 GB/s}"), "t").topology);
  const Link& link = t.links().front();
  const auto gigabytes = [&](int pairs) { return link.bandwidth_of(pairs).value / 1e9; };
  EXPECT_DOUBLE_EQ(gigabytes(1), 10);
  EXPECT_NEAR(gigabytes(2), 5.5, 1e-12);  // 1/2 is a quarter of the way from 1/3 to 1
  EXPECT_DOUBLE_EQ(gigabytes(3), 4);
  EXPECT_DOUBLE_EQ(gigabytes(100), 4);
}

}  // namespace
}  // namespace moesim
