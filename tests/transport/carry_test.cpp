// SPDX-License-Identifier: Apache-2.0
// What a transport makes of an exchange, against closed forms.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/plan/priced.h"
#include "sim/topology/topology_changes.h"
#include "tests/plan/fixtures.h"
#include "tests/transport/fixtures.h"

namespace moesim::test {
namespace {

constexpr double us = 1e-6;

TEST(Carry, AnIdealTransportChangesNothing) {
  const Topology cluster = small_cluster(2);
  const ByteMatrix traffic = to_peers(8, 1, 7, 10, 100'000);
  const ExchangeTime ideal = price(cluster, traffic)->alone;
  const Transport nothing = transport_of("");
  EXPECT_TRUE(nothing.ideal());
  const ExchangeTime carried = time_by(nothing, cluster, traffic);
  EXPECT_EQ(carried.overhead, Seconds(7 * us));
  EXPECT_EQ(carried.total(), ideal.total());
}

TEST(Carry, TimesComeFromTheMeasuredCurve) {
  const Topology cluster = small_cluster(1);
  // 1 MB in 20 us, 3 MB in 40 us.
  const Transport t = transport_of(
      "links:\n  - {class: nvlink, of: 100 GB/s, rates: [{size: 1 MB, rate: 50 GB/s}, {size: 3 MB, "
      "rate: 75 GB/s}]}\n");
  const auto transfer = [&](std::uint32_t kilobytes) {
    return time_by(t, cluster, to_peers(4, 1, 1, kilobytes, 1000)).transfer.value / us;
  };
  EXPECT_NEAR(transfer(1000), 20, 1e-9);
  EXPECT_NEAR(transfer(2000), 30, 1e-9);
  EXPECT_NEAR(transfer(3000), 40, 1e-9);
  EXPECT_NEAR(transfer(500), 10, 1e-9);   // the rate of the first size
  EXPECT_NEAR(transfer(6000), 80, 1e-9);  // that of the last one
}

TEST(Carry, WhatDoesNotScaleWithBytesDoesNotScaleWithTheBandwidth) {
  // 10 us and 1 us per 100 kB on the measured link of 200 GB/s; a link of half of it needs
  // T(2 x bytes).
  const Transport t = transport_of(
      "links:\n  - {class: nvlink, of: 200 GB/s, rates: [{size: 100 kB, rate: 9.09090909090909 "
      "GB/s}, {size: 10100 kB, rate: 90.99099099099099 GB/s}]}\n");
  const ExchangeTime time = time_by(t, small_cluster(1), to_peers(4, 1, 1, 5'000, 1000));
  EXPECT_NEAR(time.transfer.value / us, 10 + 100, 1e-3);
}

TEST(Carry, PartsOfAByteCountOnALinkOfAnotherBandwidth) {
  // 1 MB/s whatever the size: 5 bytes are 7.5 of the measured link, which take 7.5 us.
  const Transport t = transport_of(
      "links:\n  - {class: nvlink, of: 150 GB/s, rates: [{size: 1 B, rate: 1 MB/s}, "
      "{size: 100 B, rate: 1 MB/s}]}\n");
  const ExchangeTime time = time_by(t, small_cluster(1), to_peers(4, 1, 1, 1, 5));
  EXPECT_NEAR(time.transfer.value / us, 7.5, 1e-9);
}

TEST(Carry, BetweenTwoMeasuredLinksTheGeometricMeanHolds) {
  const Transport t = transport_of(
      "links:\n  - {class: nvlink, of: 50 GB/s, efficiency: 0.5}\n"
      "  - {class: nvlink, of: 200 GB/s, efficiency: 0.5}\n");
  // 100 is half way between 50 and 200: sqrt(25 x 100) = 50 GB/s.
  const ExchangeTime time = time_by(t, small_cluster(1), to_peers(4, 1, 1, 1'000, 1000));
  EXPECT_NEAR(time.transfer.value / us, 20, 1e-9);
}

TEST(Carry, StartUpIsThatOfTheFarthestTier) {
  const Transport t = transport_of("start_up: {host: 3 us, fabric: 30 us}\n");
  const Topology cluster = small_cluster(2);
  EXPECT_EQ(time_by(t, cluster, to_peers(8, 1, 1, 1, 1)).overhead, Seconds(3 * us));
  EXPECT_EQ(time_by(t, cluster, to_peers(8, 1, 4, 1, 1)).overhead, Seconds(30 * us));
  EXPECT_EQ(time_by(t, cluster, to_peers(8, 1, 4, 1, 1), true).overhead, Seconds(0));
}

TEST(Carry, TheFirstRowTakesAsLongAsItIsWide) {
  const Transport t = transport_of("start_up: {host: 4 us, fabric: 9 us}\nfirst_row: 500 MB/s\n");
  const Topology cluster = small_cluster(2);
  const auto overhead = [&](int peers, std::int64_t row, bool goes_on) {
    return time_by(t, cluster, to_peers(8, 1, peers, 5, row), goes_on).overhead.value / us;
  };
  EXPECT_NEAR(overhead(1, 1000, false), 4 + 2, 1e-9);
  EXPECT_NEAR(overhead(7, 14'000, false), 9 + 28, 1e-9);
  EXPECT_EQ(overhead(1, 1000, true), 0);
}

TEST(Carry, EveryPeerAndEveryRowCosts) {
  const Transport t = transport_of(
      "start_up: 3 us\nper_peer: {host: 1 us, fabric: 2 us}\nlinks:\n"
      "  - {class: nvlink, of: 100 GB/s, efficiency: 1, per_message: 5 ns}\n");
  const Topology cluster = small_cluster(2);
  EXPECT_NEAR(time_by(t, cluster, to_peers(8, 1, 3, 1, 1)).overhead.value / us, 3 + 3 * 1, 1e-9);
  EXPECT_NEAR(time_by(t, cluster, to_peers(8, 1, 7, 1, 1)).overhead.value / us, 3 + 7 * 2, 1e-9);
  // 300 rows of 1 kB leave GPU 0: 3 us of bytes and 1.5 us of rows.
  EXPECT_NEAR(time_by(t, cluster, to_peers(8, 1, 3, 100, 1000)).transfer.value / us, 4.5, 1e-9);
}

TEST(Carry, ARowCostsMoreTheMoreGpusOfItsHostCouldGetIt) {
  const Transport t = transport_of(
      "start_up: 3 us\nlinks:\n"
      "  - {class: nvlink, of: 100 GB/s, efficiency: 1, per_message: 5 ns, per_message_peer: 2 "
      "ns}\n");
  // 300 rows of 1 kB leave GPU 0: 3 us of bytes, and rows of 5 + 3 x 2 ns with four GPUs in a host.
  const double transfer = 3 + 300 * 11e-3;
  for (const int hosts : {1, 2}) {
    const ByteMatrix rows = to_peers(4 * hosts, 1, 3, 100, 1000);
    EXPECT_NEAR(time_by(t, small_cluster(hosts), rows).transfer.value / us, transfer, 1e-9);
  }
}

TEST(Carry, ARowCostsWhatItDoesOnALinkOfItsBandwidth) {
  const auto entry = [](int of, int per_message) {
    return fmt::format("  - {{class: nvlink, of: {} GB/s, efficiency: 1, per_message: {} ns}}\n",
                       of, per_message);
  };
  const auto rows = [](const std::string& links) {
    const Transport t = transport_of("links:\n" + links);
    return time_by(t, small_cluster(1), to_peers(4, 1, 3, 100, 1000)).transfer.value / us - 3;
  };
  const std::string own = entry(100, 5);
  for (const std::string& before : {std::string(), entry(50, 0), entry(25, 90) + entry(50, 0)}) {
    EXPECT_NEAR(rows(before + own), 1.5, 1e-9) << before;
    EXPECT_NEAR(rows(before + own + entry(400, 70)), 1.5, 1e-9) << before;
  }
  EXPECT_NEAR(rows(entry(25, 0) + entry(50, 4)), 1.2, 1e-9);    // as the nearest
  EXPECT_NEAR(rows(entry(50, 4) + entry(200, 12)), 2.4, 1e-9);  // half way between
}

TEST(Transport, WithOtherExchangesOnlyIsNotIdeal) {
  EXPECT_TRUE(transport_of("").ideal());
  EXPECT_FALSE(transport_of("others: nccl-p2p\n").ideal());
  const Transport bare = transport_of("others: nccl-p2p\n");
  EXPECT_EQ(find_transports("bare",
                            [&](const std::string& name) {
                              return name == "bare" ? unless_ideal(bare) : find_transport(name);
                            })
                .others->name,
            "nccl-p2p");
}

TEST(Carry, SlowerHostsTakeLongerForAPeer) {
  const Topology slow = small_cluster(2, "peer_overhead: 5 us\n");
  const Topology quick = small_cluster(2, "peer_overhead: 1 us\n");
  const Transport by_host = transport_of("start_up: 3 us\nper_peer: {host: 0 us, fabric: 2 us}\n");
  const ByteMatrix everywhere = to_peers(8, 1, 7, 1, 1), inside = to_peers(8, 1, 3, 1, 1);
  EXPECT_NEAR(time_by(by_host, slow, everywhere).overhead.value / us, 3 + 7 * 5, 1e-9);
  EXPECT_NEAR(time_by(by_host, quick, everywhere).overhead.value / us, 3 + 7 * 2, 1e-9);
  // Messages that cost the host nothing.
  EXPECT_NEAR(time_by(by_host, slow, inside).overhead.value / us, 3, 1e-9);
  const Transport by_gpu = transport_of("start_up: 3 us\n");
  EXPECT_NEAR(time_by(by_gpu, slow, everywhere).overhead.value / us, 3, 1e-9);
}

TEST(Carry, PeersAreThoseOfTheGpuThatHasMost) {
  const Transport t = transport_of("start_up: 3 us\nper_peer: 1 us\n");
  const Topology cluster = small_cluster(2);
  // GPU 7 hears from five, none sends to more than one; what stays on its GPU is for no peer.
  ByteMatrix gather(Bytes(1));
  for (int g = 0; g < 8; ++g) {
    const ByteMatrix::Entry own{GpuId(g), 1}, sent{GpuId(7), 1};
    gather.add_row(g < 5 ? std::vector{own, sent} : std::vector{own});
  }
  EXPECT_NEAR(time_by(t, cluster, gather).overhead.value / us, 3 + 5, 1e-9);
  EXPECT_NEAR(time_by(t, cluster, gather.transposed()).overhead.value / us, 3 + 5, 1e-9);
}

TEST(Carry, AConnectionTakesItsRowsOneByOne) {
  const Transport t = transport_of("start_up: 3 us\nper_row: {host: 0 us, fabric: 2 us}\n");
  const Topology cluster = small_cluster(2);
  // 3 peers in the host: nothing. 7 peers, 4 of them beyond: 5 rows for each.
  EXPECT_NEAR(time_by(t, cluster, to_peers(8, 1, 3, 5, 1)).overhead.value / us, 3, 1e-9);
  EXPECT_NEAR(time_by(t, cluster, to_peers(8, 1, 7, 5, 1)).overhead.value / us, 3 + 5 * 2, 1e-9);
  // What belongs to a kernel that has started still has its rows.
  EXPECT_NEAR(time_by(t, cluster, to_peers(8, 1, 7, 5, 1), true).overhead.value / us, 5 * 2, 1e-9);
  // 4 rows for one peer and 1 for another: 2.5 for each.
  ByteMatrix uneven{Bytes(100)};
  uneven.add_row({});
  uneven.add_row(std::vector<ByteMatrix::Entry>{{GpuId(4), 4}, {GpuId(5), 1}});
  for (int g = 2; g < 8; ++g) uneven.add_row({});
  EXPECT_NEAR(time_by(t, cluster, uneven).overhead.value / us, 3 + 2.5 * 2, 1e-9);
}

TEST(Carry, TheBusiestGpuSaysHowLongRowsTake) {
  const Transport t = transport_of("start_up: 3 us\nper_row: 2 us\n");
  ByteMatrix traffic{Bytes(100)};
  traffic.add_row({});
  traffic.add_row(std::vector<ByteMatrix::Entry>{{GpuId(4), 6}});
  traffic.add_row(std::vector<ByteMatrix::Entry>{{GpuId(5), 2}, {GpuId(6), 4}});
  for (int g = 3; g < 8; ++g) traffic.add_row({});
  EXPECT_NEAR(time_by(t, small_cluster(2), traffic).overhead.value / us, 3 + 6 * 2, 1e-9);
}

TEST(Carry, FlagsGoToAllExpertsHoweverFewRowsThereAre) {
  const Transport t = transport_of("start_up: 3 us\nflags: {host: 8 us, fabric: 20 us}\n");
  const Topology cluster = small_cluster(2);
  const auto overhead = [&](const ByteMatrix& traffic, bool goes_on = false) {
    return time_by(t, cluster, traffic, goes_on).overhead.value / us;
  };
  // 8 GPUs in 2 hosts: 7 of 8 are others, 4 of 8 are beyond, for one peer as for all.
  EXPECT_NEAR(overhead(to_peers(8, 1, 3, 1, 1)), 3 + 8 * 7 / 8., 1e-9);
  EXPECT_NEAR(overhead(to_peers(8, 1, 4, 1, 1)), 3 + 20 * 4 / 8., 1e-9);
  EXPECT_NEAR(overhead(to_peers(8, 1, 7, 5, 1)), 3 + 20 * 4 / 8., 1e-9);
  EXPECT_EQ(overhead(to_peers(8, 1, 7, 5, 1), true), 0);
  // They go with the rows: the longer of the two counts.
  const Transport rows = transport_of("start_up: 3 us\nflags: 20 us\nper_row: 4 us\n");
  EXPECT_NEAR(time_by(rows, cluster, to_peers(8, 4, 4, 2, 1)).overhead.value / us, 3 + 10, 1e-9);
  EXPECT_NEAR(time_by(rows, cluster, to_peers(8, 4, 4, 3, 1)).overhead.value / us, 3 + 12, 1e-9);
  // Of a group of 5, the one in the second host has 4 of 5 beyond.
  ByteMatrix five{Bytes(1)};
  five.add_row(std::vector<ByteMatrix::Entry>{{GpuId(4), 1}});
  for (int g = 1; g < 5; ++g) five.add_row({});
  const std::vector<GpuId> members = {GpuId(0), GpuId(1), GpuId(2), GpuId(3), GpuId(4)};
  EXPECT_NEAR(price(cluster, GroupTraffic{five, members}, {&t, false})->alone.overhead.value / us,
              3 + 20 * 4 / 5., 1e-9);
  // So has the one in the first host, and a host without members counts for nothing.
  const std::vector<GpuId> other = {GpuId(3), GpuId(8), GpuId(9), GpuId(10), GpuId(11)};
  EXPECT_NEAR(
      price(small_cluster(3), GroupTraffic{five, other}, {&t, false})->alone.overhead.value / us,
      3 + 20 * 4 / 5., 1e-9);
}

TEST(Carry, RowsForItselfAndNoRoundsCostNothing) {
  const Transport t = transport_of("start_up: 3 us\nflags: 20 us\n"),
                  rows = transport_of("start_up: 3 us\nper_row: 4 us\n");
  const Topology cluster = small_cluster(1);
  const ByteMatrix itself = to_peers(4, 0, 1, 5, 1);
  EXPECT_EQ(time_by(rows, cluster, itself).total(), Seconds(3 * us));
  const std::vector<GpuId> members = {GpuId(0), GpuId(1), GpuId(2), GpuId(3)};
  const GroupTraffic nothing{itself, members, false, 0};
  EXPECT_EQ(price(cluster, nothing, {&t, false})->alone.total(), Seconds(0));
}

TEST(Carry, ALinkAsSlowAsItsRatesYieldsThatPart) {
  const Transport t = transport_of("links:\n  - {class: nvlink, of: 100 GB/s, efficiency: 0.25}\n");
  const auto priced = price(small_cluster(1), to_peers(4, 1, 1, 1'000, 1000), {&t, false});
  ASSERT_FALSE(priced->loads.uses.empty());
  for (const LinkUse& use : priced->loads.uses) EXPECT_NEAR(use.part, 0.25, 1e-12);
}

TEST(Carry, AnotherNetworkIsNotFasterAndNoneIsByItsDataSheet) {
  const Transport t =
      transport_of("links:\n  - {class: nic, network: infiniband, of: 10 GB/s, efficiency: 0.5}\n");
  const ByteMatrix traffic = to_peers(8, 4, 1, 1'000, 1000);
  const auto transfer = [&](const std::string& network) {
    return time_by(t, small_cluster(2, network), traffic).transfer.value / us;
  };
  EXPECT_NEAR(transfer("network: infiniband\n"), 200, 1e-9);
  EXPECT_NEAR(transfer("network: efa\n"), 200, 1e-9);
  EXPECT_NEAR(transfer(""), 100, 1e-9);
}

TEST(Carry, WhatWasMeasuredStays) {
  const Transport t =
      transport_of("start_up: 3 us\nlinks:\n  - {class: nvlink, of: 100 GB/s, efficiency: 0.5}\n");
  const ByteMatrix traffic = to_peers(4, 1, 1, 1'000, 1000);
  const Topology measured = small_cluster(1, "measured_with: nccl-p2p\n");
  EXPECT_EQ(time_by(t, measured, traffic).total(), price(measured, traffic)->alone.total());
  EXPECT_NEAR(time_by(t, small_cluster(1), traffic).total().value / us, 3 + 20, 1e-9);
}

TEST(Carry, AWhatIfOfOverheadsScalesStartUps) {
  const Transport t = transport_of("start_up: 4 us\n");
  const Topology twice = changed(small_cluster(1), {.overhead = 2});
  EXPECT_EQ(time_by(t, twice, to_peers(4, 1, 1, 1, 1)).overhead, Seconds(8 * us));
}

std::string random_rates(std::mt19937& random, double most) {
  std::string text;
  double time = 0, size = 1000;
  for (int i = 0; i < 6; ++i, size *= 7) {
    time = std::max(time, size / most) * std::uniform_real_distribution<>(1, 3)(random);
    text += fmt::format("{}{{size: {:.0f} B, rate: {:.6f} GB/s}}", i ? ", " : "", size,
                        std::min(most, size / time));
  }
  return text;
}

TEST(Carry, MoreBytesOrPeersOrASlowerLinkNeverTakeLess) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    const Transport t = transport_of(
        fmt::format("start_up: 5 us\nper_peer: 0.5 us\nlinks:\n  - {{class: nvlink, of: 80 GB/s, "
                    "rates: [{}], per_message: 1 ns}}\n",
                    random_rates(random, 80)));
    const Topology cluster = small_cluster(1),
                   slower = changed(cluster, {.bandwidth = {{cluster.links()[0].link_class, 0.9}}});
    const auto rows = std::uniform_int_distribution<std::uint32_t>(1, 1 << 16)(random);
    const ByteMatrix few = to_peers(4, 1, 2, rows, 500);
    const Seconds time = time_by(t, cluster, few).total();
    EXPECT_LE(time, time_by(t, cluster, to_peers(4, 1, 2, rows + 1, 500)).total());
    EXPECT_LE(time, time_by(t, cluster, to_peers(4, 1, 3, rows, 500)).total());
    EXPECT_LE(time, time_by(t, slower, few).total());
    EXPECT_LE(price(cluster, few)->alone.transfer, time_by(t, cluster, few).transfer);
  }
}

Op token_exchange(Stage stage, Pass pass, int part, Stream stream = Stream::ep) {
  Op op;
  op.label = "x";
  op.key.kind = OpKind::token_exchange;
  op.key.stage = stage;
  op.key.pass = pass;
  op.key.part = part;
  op.stream = stream;
  op.group = Group::first(4);
  op.work = Exchange{to_peers(4, 1, 1, 1'000, 1000), {}};
  return op;
}

TEST(Carriers, GoByTheWayOfTheRowsAndStartAKernelOnce) {
  Plan plan;
  plan.gpus = 4;
  plan.transports.tokens = std::make_shared<const Transport>(
      transport_of("start_up: 3 us\nfused: true\ncombine: {start_up: 9 us}\n"));
  plan.transports.others = std::make_shared<const Transport>(transport_of("start_up: 1 us\n"));
  plan.add(token_exchange(Stage::dispatch, Pass::forward, 0));
  plan.add(token_exchange(Stage::dispatch, Pass::forward, 1, Stream::ep_2));
  plan.add(token_exchange(Stage::combine, Pass::forward, 1, Stream::ep_2));
  plan.add(token_exchange(Stage::combine, Pass::forward, 0));
  plan.add(token_exchange(Stage::combine, Pass::backward, 0));
  plan.add(token_exchange(Stage::dispatch, Pass::backward, 0));
  plan.add(token_exchange(Stage::dispatch, Pass::forward, 256));  // of another chunk
  plan.add(token_exchange(Stage::gather, Pass::forward, 0, Stream::param));
  const Topology cluster = small_cluster(1);
  const PricedPlan priced(plan, cluster);
  const std::vector<double> start_ups = {3, 0, 9, 0, 3, 9, 3, 1};
  for (std::size_t i = 0; i < start_ups.size(); ++i) {
    EXPECT_NEAR(priced[OpId(static_cast<std::int64_t>(i))]->alone.overhead.value / us, start_ups[i],
                1e-9)
        << i;
  }
}

// T(1 MB) = 20 us, T(2 MB) = 30 us: two phases of 1 MB take 15 us each in one kernel.
TEST(Carriers, PhasesOfAFusedKernelShareTheTimeOfAllItsBytes) {
  const std::string rates =
      "links:\n  - {class: nvlink, of: 100 GB/s, rates: [{size: 1 MB, rate: 50 GB/s}, {size: 3 MB, "
      "rate: 75 GB/s}]}\n";
  Plan plan;
  plan.gpus = 4;
  plan.add(token_exchange(Stage::dispatch, Pass::forward, 0));
  plan.add(token_exchange(Stage::dispatch, Pass::forward, 1));
  const Topology cluster = small_cluster(1);
  for (const auto& [fused, expected] : {std::pair("true", 15.0), std::pair("false", 20.0)}) {
    plan.transports.tokens = std::make_shared<const Transport>(
        transport_of(rates + "start_up: 1 us\nfused: " + fused + "\n"));
    const PricedPlan priced(plan, cluster);
    EXPECT_NEAR(priced[OpId(0)]->alone.transfer.value / us, expected, 1e-9);
    EXPECT_NEAR(priced[OpId(1)]->alone.transfer.value / us, expected, 1e-9);
  }
}

}  // namespace
}  // namespace moesim::test
