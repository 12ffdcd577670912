// SPDX-License-Identifier: Apache-2.0
// What is said of parts that make no cluster, and what clusters take over from files.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "sim/base/error.h"
#include "sim/topology/show/summary.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

/// Two GPUs of a host and the links between them.
Topology::Parts two_gpus() {
  Topology::Parts parts;
  parts.name = "two";
  parts.classes = {{"wire", Tier::host}};
  for (int g = 0; g < 2; ++g) {
    parts.vertices.push_back({"gpu" + std::to_string(g), VertexKind::gpu, 0});
    parts.gpus.push_back(VertexId(g));
    parts.gpu_model.push_back("x");
    parts.links.push_back({.from = VertexId(g),
                           .to = VertexId(1 - g),
                           .bandwidth = BytesPerSecond(1e9),
                           .latency = Seconds(1e-6)});
  }
  return parts;
}

std::string said_of(const std::function<void(Topology::Parts&)>& change) {
  Topology::Parts parts = two_gpus();
  change(parts);
  try {
    Topology cluster(std::move(parts));
  } catch (const Error& e) {
    return e.diagnostics().front().message;
  }
  return "";
}

TEST(Parts, LinksJoinTwoVerticesAtARate) {
  using Parts = Topology::Parts;
  EXPECT_EQ(said_of([](Parts&) {}), "");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].to = VertexId(2); }),
            "two: a link has an end that is not a vertex");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].from = VertexId(2); }),
            "two: a link has an end that is not a vertex");
  EXPECT_EQ(said_of([](Parts& p) { p.links[1].to = VertexId(1); }),
            "two: the link gpu1 -> gpu1 goes nowhere");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].bandwidth = BytesPerSecond(0); }),
            "two: the link gpu0 -> gpu1 has no bandwidth");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].latency = Seconds(-1e-9); }),
            "two: the link gpu0 -> gpu1 has a negative latency");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].latency = Seconds(0); }), "");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].cost = 0; }),
            "two: the link gpu0 -> gpu1 has a routing cost below 1");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].cost = 1'000'000; }), "");
  EXPECT_EQ(said_of([](Parts& p) { p.links[0].cost = 1'000'001; }),
            "two: the link gpu0 -> gpu1 has a routing cost above 1000000");
  for (const int none : {-1, 1}) {
    EXPECT_EQ(said_of([&](Parts& p) { p.links[0].link_class = none; }),
              "two: the link gpu0 -> gpu1 has no class");
  }
}

TEST(Parts, CrowdedLinksYieldLessFromSomePairsOn) {
  const auto crowded = [](std::int64_t from, std::int64_t pairs, double bandwidth) {
    return said_of([&](Topology::Parts& p) {
      p.links[0].crowded.from = from;
      p.links[0].crowded.pairs = pairs;
      p.links[0].crowded.bandwidth = BytesPerSecond(bandwidth);
    });
  };
  const std::string mistake = "two: the link gpu0 -> gpu1 cannot be crowded like that";
  EXPECT_EQ(crowded(1, 2, 1e9), "");
  EXPECT_EQ(crowded(0, 2, 1e9), mistake);
  EXPECT_EQ(crowded(2, 2, 1e9), mistake);
  EXPECT_EQ(crowded(1, 2, 0), mistake);
  EXPECT_EQ(crowded(1, 2, 1.1e9), mistake);
}

TEST(Parts, GpusAreVerticesOfAHost) {
  using Parts = Topology::Parts;
  EXPECT_EQ(said_of([](Parts& p) { p.vertices[1].name = "gpu0"; }),
            "two: two vertices are named gpu0");
  EXPECT_EQ(said_of([](Parts& p) { p.vertices[1].host = -2; }), "two: gpu1 has host -2");
  EXPECT_EQ(said_of([](Parts& p) { p.vertices[1].host = 2; }), "two: gpu1 has host 2");
  EXPECT_EQ(said_of([](Parts& p) { p.vertices[1].host = -1; }),
            "two: gpu1 is a GPU without a host");
  EXPECT_EQ(said_of([](Parts& p) { p.vertices[1].kind = VertexKind::nic; }),
            "two: gpu1 is ranked but is not a GPU");
  EXPECT_EQ(said_of([](Parts& p) { p.gpus[1] = VertexId(2); }), "two: a rank has no vertex");
  EXPECT_EQ(said_of([](Parts& p) { p.gpus.clear(); }), "two: there are no GPUs");
  EXPECT_EQ(said_of([](Parts& p) { p.gpu_model.pop_back(); }), "two: 2 GPUs but 1 GPU models");
}

TEST(Parts, LevelsHaveAGroupOfEveryGpu) {
  const auto level = [](std::vector<int> group_of, int groups) {
    return said_of([&](Topology::Parts& p) { p.levels = {{"l", std::move(group_of), groups}}; });
  };
  EXPECT_EQ(level({0, 1}, 2), "");
  EXPECT_EQ(level({0}, 1), "two: level 'l' tells the groups of 1 GPUs, not 2");
  EXPECT_EQ(level({0, 2}, 2), "two: level 'l' has a group 2 of 2");
  EXPECT_EQ(level({0, -1}, 2), "two: level 'l' has a group -1 of 2");
  EXPECT_EQ(level({0, 1}, 3), "two: level 'l' has a group 0 of 3");
  for (Seconds Topology::Parts::*overhead :
       {&Topology::Parts::exchange_overhead, &Topology::Parts::peer_overhead}) {
    EXPECT_EQ(said_of([&](Topology::Parts& p) { p.*overhead = Seconds(-1); }),
              "two: an overhead is below 0");
  }
}

TEST(Parts, WithoutLevelsTheGpusAreCutInHalves) {
  Topology::Parts parts = two_gpus();
  for (const int more : {2, 3}) {
    parts.vertices.push_back({"gpu" + std::to_string(more), VertexKind::gpu, 0});
    parts.gpus.push_back(VertexId(more));
    parts.gpu_model.push_back("x");
    for (const auto& [from, to] : {std::pair(more, 0), std::pair(0, more)}) {
      parts.links.push_back({.from = VertexId(from),
                             .to = VertexId(to),
                             .bandwidth = BytesPerSecond(3e9),
                             .latency = Seconds(1e-6)});
    }
  }
  const Bisection cut = bisection_of(Topology(std::move(parts)));
  EXPECT_EQ(cut.level, "gpu");
  EXPECT_EQ(cut.first, 2);
  EXPECT_EQ(cut.second, 2);
  EXPECT_DOUBLE_EQ(cut.bandwidth.value, 6e9);
}

TEST(Parts, WrittenOutClustersHaveOverheads) {
  using testing::cable;
  const Topology t =
      parse("exchange_overhead: 7 us\npeer_overhead: 2 us\nnetwork: n\n" +
            testing::written_out(cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") +
                                 cable("b1", "bn") + cable("an", "s") + cable("bn", "s") +
                                 cable("t", "s")));
  EXPECT_DOUBLE_EQ(t.exchange_overhead().value, 7e-6);
  EXPECT_DOUBLE_EQ(t.peer_overhead().value, 2e-6);
  EXPECT_EQ(t.network(), "n");
}

TEST(Parts, HostsAreALevelIfTheirGpusAreNextToEachOther) {
  using testing::cable;
  const std::string text = testing::written_out(
      cable("a0", "an") + cable("a1", "an", ", cost: 1") + cable("b0", "bn") + cable("b1", "bn") +
      cable("an", "s") + cable("bn", "s") + cable("t", "s"));
  const Topology t = parse(text);
  ASSERT_EQ(t.levels().size(), 2U);
  EXPECT_EQ(t.levels()[0].group_of, (std::vector{0, 0, 0, 0}));
  EXPECT_EQ(t.levels()[1].group_of, (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(t.levels()[1].groups, 2);
}

TEST(Parts, EveryGpuNeedsAWayOut) {
  using testing::cable;
  const std::string text = errors(testing::written_out(
      cable("a0", "an") + cable("an", "a1", ", one_way: true") +
      cable("a0", "a1", ", one_way: true") + cable("b0", "bn") + cable("b1", "bn") +
      cable("an", "s") + cable("bn", "s") + cable("t", "s")));
  EXPECT_NE(text.find("a1 cannot reach"), std::string::npos) << text;
}

/// The vertices that a vertex is joined to, in the order of the links.
std::vector<std::string> next_to(const Topology& t, const std::string& name) {
  std::vector<std::string> found;
  for (const Link& link : t.links()) {
    if (t.vertices()[link.from.index()].name != name) continue;
    found.push_back(t.vertices()[link.to.index()].name);
  }
  return found;
}

TEST(Parts, NicsAreSharedOutToSwitches) {
  const Topology t = parse(testing::pcie_nodes(2, 8, "{kind: switch}"));
  for (int nic = 0; nic < 8; ++nic) {
    EXPECT_EQ(next_to(t, fmt::format("node1.nic{}", nic)),
              (std::vector{fmt::format("node1.pcie{}", nic / 2), std::string("switch")}));
  }
}

/// GB/s of the links between data centers.
std::vector<double> wan_rates(const Topology& t) {
  std::vector<double> rates;
  for (const Link& link : t.links()) {
    if (t.classes()[static_cast<std::size_t>(link.link_class)].tier == Tier::wan) {
      rates.push_back(link.bandwidth.value / 1e9);
    }
  }
  return rates;
}

TEST(Parts, OnePairOfDataCentersMayHaveAnotherLink) {
  const Topology t = parse(testing::nvswitch_nodes(1, 1, 1, "{kind: none}") +
                           "data_centers: 3\nwan: {kind: mesh, bandwidth: 1 GB/s, latency: 1 ms, "
                           "pairs: [{between: [0, 2], bandwidth: 3 GB/s, latency: 1 ms}]}\n");
  EXPECT_EQ(wan_rates(t),
            (std::vector<double>{1, 1, 3, 3, 1, 1}));  // 0 1, 0 2, 1 2, there and back
}

TEST(Parts, OneDataCenterMayHaveAnotherUplink) {
  const Topology t = parse(testing::nvswitch_nodes(1, 1, 1, "{kind: none}") +
                           "data_centers: 3\nwan: {kind: hub, bandwidth: 1 GB/s, latency: 1 ms, "
                           "uplinks: [{data_center: 1, bandwidth: 3 GB/s, latency: 1 ms}]}\n");
  EXPECT_EQ(wan_rates(t), (std::vector<double>{1, 1, 3, 3, 1, 1}));  // of each, up and down
}

TEST(Parts, APairByNvlinkNeedsNoPcie) {
  const auto node = [](int gpus) {
    return errors(
        fmt::format("nodes: 1\nnode: {{gpu: x, gpus: {}, nvlink: {{kind: pairs, "
                    "bandwidth: 1 GB/s, latency: 1 us}}}}\n",
                    gpus));
  };
  EXPECT_EQ(node(2), "");
  EXPECT_NE(node(4).find("nothing joins the GPUs of the node"), std::string::npos);
}

}  // namespace
}  // namespace moesim
