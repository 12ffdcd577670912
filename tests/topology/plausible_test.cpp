// SPDX-License-Identifier: Apache-2.0
// Links that nobody sells, and NICs that their PCIe holds back, are warned of at their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/topology/narrow_front.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

struct Node {
  std::string gpu = "x";
  std::string nvlink = "450 GB/s, latency: 1 us", pcie = "64 GB/s, latency: 1 us",
              nics = "count: 2, bandwidth: 50 GB/s, latency: 1 us";
};

std::string two_nodes(const Node& node, const std::string& fabric = "{kind: switch}",
                      const std::string& more = "") {
  return "nodes: 2\nnode:\n  gpu: " + node.gpu +
         "\n  gpus: 2\n"
         "  nvlink: {kind: switch, bandwidth: " +
         node.nvlink +
         "}\n"
         "  pcie: {bandwidth: " +
         node.pcie +
         "}\n"
         "  nics: {" +
         node.nics +
         "}\n"
         "fabric: " +
         fabric + "\n" + more;
}

TEST(Plausible, WhatIsSoldIsNotWarnedOf) {
  EXPECT_EQ(warnings(two_nodes({})), "");
  EXPECT_EQ(warnings(two_nodes({.nvlink = "900 GB/s, latency: 1 us",
                                .pcie = "128 GB/s, latency: 1 us",
                                .nics = "count: 2, bandwidth: 800 Gbit/s, latency: 10 ms"})),
            "");
}

TEST(Plausible, BothDirectionsTogetherAreSuspected) {
  EXPECT_EQ(warnings(two_nodes({.gpu = "h100-sxm", .nvlink = "900 GB/s, latency: 1 us"})),
            "t.yaml:5:37: warning: 'node.nvlink.bandwidth' is 900 GB/s: NVLink of h100-sxm has 450 "
            "GB/s each way by its data sheet\n"
            "    nvlink: {kind: switch, bandwidth: 900 GB/s, latency: 1 us}\n"
            "                                      ^\n"
            "hint: 900 GB/s is both ways together, a 'bandwidth' is that of one\n");
  EXPECT_THAT(warnings(two_nodes({.gpu = "my-a100", .pcie = "64 GB/s, latency: 1 us"})),
              HasSubstr("PCIe of my-a100 has 32 GB/s each way"));
  for (const std::string gpu : {"b200", "gb200", "h1000"}) {
    EXPECT_EQ(warnings(two_nodes({.gpu = gpu, .nvlink = "900 GB/s, latency: 1 us"})), "") << gpu;
  }
  EXPECT_EQ(warnings(two_nodes({.gpu = "h100", .nvlink = "600 GB/s, latency: 1 us"})), "")
      << "a what-if is not a slip";
}

TEST(Plausible, BytesForBitsAreSuspected) {
  EXPECT_EQ(warnings(two_nodes({.pcie = "400 GB/s, latency: 1 us",
                                .nics = "count: 2, bandwidth: 400 GB/s, latency: 1 s"})),
            "t.yaml:6:21: warning: 'node.pcie.bandwidth' is 400 GB/s: PCIe has at most 128 GB/s "
            "(PCIe 6.0 x16, 64 GT/s)\n"
            "    pcie: {bandwidth: 400 GB/s, latency: 1 us}\n"
            "                      ^\n"
            "hint: were bits meant? those would be 50 GB/s\n"
            "t.yaml:7:31: warning: 'node.nics.bandwidth' is 400 GB/s: a NIC has at most 100 GB/s "
            "(800 Gbit/s, ConnectX-8)\n"
            "    nics: {count: 2, bandwidth: 400 GB/s, latency: 1 s}\n"
            "                                ^\n"
            "hint: were bits meant? those would be 50 GB/s\n"
            "t.yaml:7:50: warning: 'node.nics.latency' is 1 s: a NIC takes at most 10 ms\n"
            "    nics: {count: 2, bandwidth: 400 GB/s, latency: 1 s}\n"
            "                                                   ^\n");
}

TEST(Plausible, EveryKindOfLinkHasItsRange) {
  const std::pair<std::string, std::string> cases[] = {
      {two_nodes({.nvlink = "450 MB/s, latency: 1 us"}),
       "'node.nvlink.bandwidth' is 450 MB/s: NVLink has at least 1 GB/s\n"},
      {two_nodes({.nvlink = "450 GB/s, latency: 2 ms"}),
       "'node.nvlink.latency' is 2 ms: NVLink takes at most 1 ms\n"},
      {two_nodes({.nics = "count: 2, bandwidth: 50 kB/s, latency: 1 us"}),
       "'node.nics.bandwidth' is 50 kB/s: a NIC has at least 12.5 MB/s (100 Mbit/s Ethernet)\n"},
      {two_nodes({}, "{kind: torus, dimensions: [2, 1], bandwidth: 50 TB/s, latency: 1 us}"),
       "'fabric.bandwidth' is 50 TB/s: a link between switches has at most 14.4 TB/s"},
      {two_nodes({}, "{kind: leaf-spine, nodes_per_leaf: 1, latency: 1 s}"),
       "'fabric.latency' is 1 s: a link between switches takes at most 10 ms\n"},
      {two_nodes({}, "{kind: switch}",
                 "data_centers: 2\nwan: {kind: hub, bandwidth: 10 Gbit/s, latency: 1 s}\n"),
       "'wan.latency' is 1 s: a WAN link takes at most 300 ms\n"},
      {two_nodes({}, "{kind: switch}", "exchange_overhead: 12 s\n"),
       "'exchange_overhead' is 12 s: at most 10 ms are plausible\n"}};
  for (const auto& [text, warning] : cases) EXPECT_THAT(warnings(text), HasSubstr(warning));
}

TEST(Plausible, ANicIsNoFasterThanThePcieBeforeIt) {
  EXPECT_EQ(warnings(two_nodes({.nics = "count: 2, bandwidth: 100 GB/s, latency: 1 us"})),
            "t.yaml:7:31: warning: a NIC of 100 GB/s gets no more than PCIe's 64 GB/s\n"
            "    nics: {count: 2, bandwidth: 100 GB/s, latency: 1 us}\n"
            "                                ^\n"
            "hint: a faster 'pcie', or leave 'pcie' out: then NICs get what they have\n");
  // Two GPUs share it, each with a link of its own.
  EXPECT_EQ(warnings(two_nodes({.nics = "count: 1, bandwidth: 100 GB/s, latency: 1 us"})), "");
  // Below sockets it hangs at one of them.
  EXPECT_THAT(warnings(two_nodes({.pcie = "64 GB/s, latency: 1 us, sockets: 1",
                                  .nics = "count: 1, bandwidth: 100 GB/s, latency: 1 us"})),
              HasSubstr("no more than PCIe's 64 GB/s"));
}

TEST(Plausible, TheNicsOfAGpuShareItsPcie) {
  EXPECT_THAT(
      warnings(two_nodes({.nics = "count: 4, bandwidth: 50 GB/s, latency: 1 us"})),
      HasSubstr("warning: the 2 NICs of a GPU, of 50 GB/s each, together get no more than PCIe's "
                "64 GB/s\n"));
  EXPECT_EQ(warnings(two_nodes({.nics = "count: 4, bandwidth: 32 GB/s, latency: 1 us"})), "");
  const auto narrow = [](const std::string& nics) {
    return narrow_front_in(parse(two_nodes({.nics = nics + ", latency: 1 us"})));
  };
  EXPECT_EQ(narrow("count: 4, bandwidth: 50 GB/s"),
            "the 2 NICs of a GPU, of 50 GB/s each, together get no more than PCIe's 64 GB/s");
  EXPECT_EQ(narrow("count: 4, bandwidth: 32 GB/s"), "");
}

TEST(Plausible, TheExplicitFormIsJudgedByWhatItJoins) {
  const auto link = [](const std::string& from, const std::string& to, const std::string& rate,
                       const std::string& link_class) {
    return fmt::format("  - {{from: {}, to: {}, class: {}, bandwidth: {}, latency: 1 us}}\n", from,
                       to, link_class, rate);
  };
  const auto cluster = [&](const std::string& pcie, const std::string& nic,
                           const std::string& second = "") {
    return testing::written_out(
        link("a0", "a1", "900 GB/s", "nvlink") + link("b0", "b1", "900 GB/s", "nvlink") +
        link("a0", "an", pcie, "pcie") + link("b0", "bn", pcie, "pcie") +
        link("an", "s", nic, "nic") + link("bn", "s", second.empty() ? nic : second, "nic") +
        link("s", "t", "800 GB/s", "spine"));
  };
  EXPECT_EQ(warnings(cluster("64 GB/s", "50 GB/s")), "");
  EXPECT_EQ(warnings(cluster("64 GB/s", "64 GB/s")), "");
  EXPECT_THAT(warnings(cluster("64 GB/s", "50 GB/s", "100 GB/s")),
              HasSubstr("a NIC of 100 GB/s gets no more than PCIe's 64 GB/s"));
  EXPECT_THAT(warnings(cluster("900 GB/s", "50 GB/s")),
              HasSubstr("'links.2.bandwidth' is 900 GB/s: PCIe has at most 128 GB/s"));
  EXPECT_THAT(warnings(cluster("64 GB/s", "100 GB/s")),
              HasSubstr("t.yaml:4:5: warning: a NIC of 100 GB/s gets no more than PCIe's 64 GB/s"));
  // A loopback of 1 Gbit/s, as scripts/minicluster describes it: two switches may be anything.
  EXPECT_EQ(
      warnings("vertices:\n"
               "  - {name: a, kind: gpu, host: h, gpu: x}\n"
               "  - {name: b, kind: gpu, host: h, gpu: x}\n"
               "  - {name: in, kind: pcie_switch, host: h}\n"
               "  - {name: out, kind: pcie_switch, host: h}\n"
               "links:\n" +
               link("a", "in", "100 GB/s", "memory") + link("b", "out", "100 GB/s", "memory") +
               link("in", "out", "1 Gbit/s", "loopback")),
      "");
}

}  // namespace
}  // namespace moesim
