// SPDX-License-Identifier: Apache-2.0
// What a transport says of the links of small clusters that it was measured on, or was not.
#include "sim/transport/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transport/fixtures.h"

namespace moesim::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Transport with_links(const std::string& links) { return transport_of("links:\n" + links); }

const char* const nvlink_100 = "  - {class: nvlink, of: 100 GB/s, efficiency: 0.5}\n";
const char* const nic_10 = "  - {class: nic, of: 10 GB/s, efficiency: 0.5}\n";
const char* const efa_10 = "  - {class: nic, network: efa, of: 10 GB/s, efficiency: 0.5}\n";

/// A cluster whose NVLink has a table of its own.
Topology with_table(int nodes) {
  return std::move(
      parse_topology(fmt::format("source: test\nexchange_overhead: 7 us\nnodes: {}\nnode:\n"
                                 "  gpu: test\n  gpus: 4\n  nvlink: {{kind: switch, bandwidth: "
                                 "[{{size: 1 MB, rate: 90 GB/s}}], latency: 0 us}}\n  nics: "
                                 "{{count: 4, bandwidth: 10 GB/s, latency: 0 us}}\n"
                                 "fabric: {{kind: {}}}\n",
                                 nodes, nodes == 1 ? "none" : "switch"),
                     "cluster.yaml")
          .topology);
}

TEST(UnmeasuredLinks, WithoutATransportAllAreByDataSheet) {
  EXPECT_THAT(unmeasured_links(nullptr, small_cluster(2)), ElementsAre("nvlink", "nic"));
  EXPECT_THAT(unmeasured_links(nullptr, small_cluster(2, "network: efa\n")),
              ElementsAre("nvlink", "nic (efa)"));
  const Transport ideal = transport_of("");
  EXPECT_THAT(unmeasured_links(&ideal, small_cluster(2)), ElementsAre("nvlink", "nic"));
}

TEST(UnmeasuredLinks, NicsCountOnlyBetweenHosts) {
  EXPECT_THAT(unmeasured_links(nullptr, small_cluster(1)), ElementsAre("nvlink"));
  EXPECT_THAT(unmeasured_links(nullptr, small_cluster(3)), ElementsAre("nvlink", "nic"));
}

TEST(UnmeasuredLinks, WhatHasATableOrWasMeasuredIsNone) {
  EXPECT_THAT(unmeasured_links(nullptr, with_table(1)), IsEmpty());
  EXPECT_THAT(unmeasured_links(nullptr, with_table(2)), ElementsAre("nic"));
  EXPECT_THAT(unmeasured_links(nullptr, small_cluster(2, "measured_with: nccl-p2p\n")), IsEmpty());
  const Transport nvlink = with_links(nvlink_100), nic = with_links(nic_10),
                  both = with_links(std::string(nvlink_100) + efa_10);
  EXPECT_THAT(unmeasured_links(&nvlink, small_cluster(2)), ElementsAre("nic"));
  EXPECT_THAT(unmeasured_links(&nic, small_cluster(2)), ElementsAre("nvlink"));
  EXPECT_THAT(unmeasured_links(&both, small_cluster(2, "network: efa\n")), IsEmpty());
  EXPECT_THAT(unmeasured_links(&both, small_cluster(2, "network: ib\n")), ElementsAre("nic (ib)"));
}

TEST(UnmeasuredLinks, RatesOfAnotherBandwidthCountAndAssumedOnesDoNot) {
  const Transport faster = with_links("  - {class: nvlink, of: 900 GB/s, efficiency: 0.5}\n"),
                  assumed = with_links(
                      "  - {class: nvlink, of: 100 GB/s, efficiency: 0.5, assumed: true}\n");
  EXPECT_THAT(unmeasured_links(&faster, small_cluster(1)), IsEmpty());
  EXPECT_THAT(unmeasured_links(&assumed, small_cluster(1)), ElementsAre("nvlink"));
}

TEST(ClassesByDataSheet, HaveNoRatesAtAll) {
  const Transport assumed =
      with_links("  - {class: nvlink, of: 100 GB/s, efficiency: 0.5, assumed: true}\n");
  const auto names = [](const Transport* transport, const std::string& more) {
    const Topology topology = small_cluster(2, more);
    std::vector<std::string> list;
    for (const std::size_t c : classes_by_data_sheet(transport, topology)) {
      list.push_back(topology.classes()[c].name);
    }
    return list;
  };
  EXPECT_THAT(names(&assumed, ""), ElementsAre("nic"));
  EXPECT_THAT(names(nullptr, "network: efa\n"), ElementsAre("nvlink", "nic"));
  EXPECT_THAT(names(nullptr, "measured_with: nccl-p2p\n"), IsEmpty());
}

TEST(Coverage, TellsOfEveryClassWhereItsTimesComeFrom) {
  const Transport both = with_links(std::string(nvlink_100) + efa_10);
  EXPECT_EQ(coverage_of(both, small_cluster(2, "network: efa\n")), "nvlink, nic calibrated");
  EXPECT_EQ(coverage_of(both, small_cluster(2, "network: ib\n")),
            "nvlink calibrated, nic assumed as on efa (ib not measured)");
  EXPECT_EQ(coverage_of(both, small_cluster(2)),
            "nvlink calibrated, nic by data sheet (no network is stated)");
  EXPECT_EQ(coverage_of(both, with_table(1)).substr(0, 18), "nvlink as measured");
  EXPECT_EQ(coverage_of(with_links(nic_10), small_cluster(2)),
            "nvlink by data sheet (not measured), nic calibrated");
}

// A network that nobody measured is not faster than its kin.
TEST(RatedNetwork, IsTheNearestOfKin) {
  const auto rates = [](const std::string& network) {
    return "  - {class: nic, network: " + network + ", of: 10 GB/s, efficiency: 0.5}\n";
  };
  const Transport all = with_links(rates("efa-v2") + rates("efa-v4") + rates("infiniband")),
                  ethernet = with_links(rates("ethernet") + rates("zeta")),
                  any = with_links(nic_10);
  EXPECT_EQ(rated_network(all, "nic", "efa-v4"), "efa-v4");
  EXPECT_EQ(rated_network(all, "nic", "efa-v3"), "efa-v2");
  EXPECT_EQ(rated_network(all, "nic", "efa"), "efa-v2");
  EXPECT_EQ(rated_network(all, "nic", "roce"), "infiniband");
  EXPECT_EQ(rated_network(ethernet, "nic", "roce"), "ethernet");
  EXPECT_EQ(rated_network(any, "nic", "roce"), "roce");
  EXPECT_EQ(rated_network(all, "nic", ""), "");
}

TEST(Coverage, RatesOfOtherLinksAreNamedOnlyWhereNoneIsNear) {
  const Transport near = with_links("  - {class: nvlink, of: 97 GB/s, efficiency: 0.5}\n"),
                  assumed = with_links(
                      "  - {class: nvlink, of: 100 GB/s, efficiency: 0.5, assumed: true}\n"),
                  two = with_links(
                      "  - {class: nvlink, of: 50 GB/s, efficiency: 0.5}\n"
                      "  - {class: nvlink, of: 200 GB/s, efficiency: 0.5}\n");
  const auto nvlink_by = [](const Transport& transport) {
    const std::string text = coverage_of(transport, small_cluster(2));
    return text.substr(0, text.find(", nic"));
  };
  EXPECT_EQ(nvlink_by(near), "nvlink calibrated");
  EXPECT_EQ(nvlink_by(assumed), "nvlink assumed");
  EXPECT_EQ(nvlink_by(two), "nvlink of 100 GB/s from measurements at 50 GB/s and 200 GB/s");
}

TEST(Transport, WhatStatesAnythingIsNotIdeal) {
  EXPECT_TRUE(transport_of("").ideal());
  for (const char* const stated :
       {"start_up: 3 us\n", "host: 1 us\n", "combine: {start_up: 3 us}\n", "fused: true\n",
        "sms: 4\n", "per_row: 1 us\n",
        "links:\n  - {class: nvlink, of: 100 GB/s, efficiency: 1}\n"}) {
    const Transport transport = transport_of(stated);
    EXPECT_FALSE(transport.ideal()) << stated;
    EXPECT_NE(coverage_of(transport, small_cluster(1)), "") << stated;
  }
}

}  // namespace
}  // namespace moesim::test
