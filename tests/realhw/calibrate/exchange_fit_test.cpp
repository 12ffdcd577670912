// SPDX-License-Identifier: Apache-2.0
// Overheads, latencies and errors of exchanges whose times are those of a formula.
#include "realhw/calibrate/exchange_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "tests/realhw/calibrate/clusters.h"

namespace moesim {
namespace {

/// The most GPUs that one sends to, and its bytes.
struct MostSent {
  explicit MostSent(const ByteMatrix& traffic) {
    for (int g = 0; g < traffic.ranks(); ++g) {
      peers = std::max(peers, static_cast<int>(traffic.row(GpuId(g)).size()));
      std::int64_t sent = 0;
      for (const auto& entry : traffic.row(GpuId(g))) sent += traffic.bytes(entry).value;
      bytes = std::max(bytes, sent);
    }
  }
  int peers = 0;
  std::int64_t bytes = 0;
};

/// Every run of an op takes its time, for all GPUs.
void take_times(const MicroPlan& micro, const std::vector<double>& seconds, int runs,
                Times& times) {
  Timeline timeline;
  for (std::size_t op = 0; op < seconds.size(); ++op) {
    timeline.ops.add_row(
        std::vector<Interval>(micro.plan.ops[op].group.size(), {Seconds(0), Seconds(seconds[op])}));
  }
  times[micro.name][0].assign(static_cast<std::size_t>(runs), timeline);
}

/// Overheads and, of exchanges between nodes and of others, what they take in addition whatever
/// their bytes, and the rate of what a GPU sends.
struct Formula {
  double exchange, peer;             // s
  double outside, inside;            // s
  double outside_rate, inside_rate;  // B/s
  double tiny_peer = -1;             // peer, of exchanges of a byte; below 0: the same

  double seconds(const std::string& plan, const Op& op) const {
    const MostSent sent(op.exchange()->traffic);
    if (is_probe(op, Probe::empty)) return exchange;
    const bool between = plan.find("between") != std::string::npos;
    const bool tiny_one = is_probe(op, Probe::tiny);
    const double one = tiny_one && tiny_peer >= 0 ? tiny_peer : peer;
    return exchange + one * sent.peers + (between ? outside : inside) +
           static_cast<double>(sent.bytes) / (between ? outside_rate : inside_rate);
  }
};

/// Exchanges inside a node, and between nodes, too.
const Formula inside_a_node{.exchange = 10e-6,
                            .peer = 2e-6,
                            .outside = 0,
                            .inside = 3e-6,
                            .outside_rate = 1,
                            .inside_rate = 80e9};
const Formula between_nodes{.exchange = 10e-6,
                            .peer = 2e-6,
                            .outside = 12e-6,
                            .inside = 3e-6,
                            .outside_rate = 20e9,
                            .inside_rate = 80e9};

struct FittedFormula {
  FittedFormula(const Topology& topology, const Formula& formula)
      : plans(exchange_plans(topology, {})) {
    for (const ExchangePlan& plan : plans) {
      std::vector<double> seconds;
      for (const Op& op : plan.micro.plan.ops) {
        seconds.push_back(formula.seconds(plan.micro.name, op));
      }
      take_times(plan.micro, seconds, 2, times);
    }
    fit = fit_exchanges(topology, plans, times);
  }
  const ClassFit& of(const std::string& link_class) const {
    const auto found = std::ranges::find(fit.classes, link_class, &ClassFit::link_class);
    if (found == fit.classes.end()) throw std::logic_error("no class " + link_class);
    return *found;
  }
  std::vector<ExchangePlan> plans;
  Times times;
  ExchangeFit fit;
};

TEST(ExchangeFit, DividesFixedTimesIntoOverheadsAndTheLatenciesOfARoute) {
  // Between nodes: two links each of NICs and, of 2 us, of PCIe.
  const FittedFormula f(switched_cluster(2, 2), between_nodes);
  EXPECT_NEAR(f.fit.exchange_overhead.value, 10e-6, 1e-12);
  EXPECT_EQ(f.fit.exchange_overhead.kept, 2 * 2 * 4) << "runs, levels, and exchanges of nothing";
  EXPECT_NEAR(f.fit.peer_overhead, 2e-6, 1e-9);
  ASSERT_EQ(f.fit.classes.size(), 2u);
  const ClassFit &nic = f.of("nic"), &nvlink = f.of("nvlink");
  EXPECT_EQ(nic.plan, "alltoall between nodes");
  EXPECT_EQ(nic.nominal, BytesPerSecond(25e9));
  EXPECT_EQ(nic.peers, 2);
  EXPECT_EQ(nic.links, 2);
  EXPECT_NEAR(nic.other_latency.value, 4e-6, 1e-12);
  EXPECT_NEAR(nic.fit.fixed.value, 26e-6, 1e-9);
  EXPECT_NEAR(nic.latency.value, (12e-6 - 4e-6) / 2, 1e-9);
  EXPECT_EQ(nvlink.plan, "alltoall inside a node");
  EXPECT_EQ(nvlink.peers, 1);
  EXPECT_EQ(nvlink.links, 2);
  EXPECT_EQ(nvlink.other_latency, Seconds(0));
  EXPECT_NEAR(nvlink.latency.value, 3e-6 / 2, 1e-9);
}

TEST(ExchangeFit, LowersAPeerOverheadToWhatTheFixedTimesLeave) {
  const FittedFormula four(switched_cluster(1, 4), {.exchange = 10e-6,
                                                    .peer = 1e-6,
                                                    .outside = 0,
                                                    .inside = 0,
                                                    .outside_rate = 20e9,
                                                    .inside_rate = 80e9,
                                                    .tiny_peer = 5e-6});
  EXPECT_NEAR(four.fit.peer_overhead, 1e-6, 1e-9) << "of three peers";
  EXPECT_NEAR(four.of("nvlink").latency.value, 0, 1e-9);
  const FittedFormula pairs(switched_cluster(2, 2), {.exchange = 10e-6,
                                                     .peer = 2e-6,
                                                     .outside = 20e-6,
                                                     .inside = 0,
                                                     .outside_rate = 20e9,
                                                     .inside_rate = 80e9,
                                                     .tiny_peer = 5e-6});
  EXPECT_NEAR(pairs.fit.peer_overhead, 2e-6, 1e-9) << "of one peer";
  EXPECT_NEAR(pairs.of("nic").latency.value, (20e-6 - 4e-6) / 2, 1e-9);
}

TEST(ExchangeFit, HasNoTimesBelowZero) {
  // More peers take less time, and overheads more than the exchanges of a table.
  const FittedFormula f(switched_cluster(2, 2), {.exchange = 10e-6,
                                                 .peer = -1e-6,
                                                 .outside = 0,
                                                 .inside = -5e-6,
                                                 .outside_rate = 20e9,
                                                 .inside_rate = 80e9});
  EXPECT_EQ(f.fit.peer_overhead, 0);
  EXPECT_EQ(f.of("nic").latency, Seconds(0));
  EXPECT_EQ(f.of("nvlink").latency, Seconds(0));
}

TEST(ExchangeFit, LooksAtAGpuThatSends) {
  // The first GPU is alone on its node: it sends to three of the other node, and to none inside.
  const FittedFormula f(unequal_nodes(1, 3), between_nodes);
  EXPECT_EQ(f.of("nic").peers, 3);
  EXPECT_EQ(f.of("nvlink").peers, 2);
  EXPECT_EQ(f.of("nvlink").links, 2);
  EXPECT_NEAR(f.of("nvlink").latency.value, 3e-6 / 2, 1e-9);
}

TEST(ExchangeFit, GivesTheWholeLatencyToTheOnlyLinkOfARoute) {
  const Topology mesh = parse_topology(
                            "nodes: 1\nnode:\n  gpu: h100-sxm\n  gpus: 3\n"
                            "  nvlink: {kind: mesh, bandwidth: 100 GB/s, latency: 1 us}\n",
                            "t.yaml")
                            .topology;
  const FittedFormula f(mesh, inside_a_node);
  EXPECT_EQ(f.of("nvlink").links, 1);
  EXPECT_NEAR(f.of("nvlink").latency.value, 3e-6, 1e-9);
}

TEST(ExchangeFit, IsOfTheClassThatTakesLongest) {
  const Formula formula{.exchange = 10e-6,
                        .peer = 2e-6,
                        .outside = 30e-6,
                        .inside = 3e-6,
                        .outside_rate = 10e9,
                        .inside_rate = 80e9};
  const auto first_class = [&](double pcie) {
    return FittedFormula(switched_cluster(2, 2, pcie), formula).fit.classes.at(0);
  };
  EXPECT_EQ(first_class(50).link_class, "nic");
  EXPECT_EQ(first_class(25).link_class, "nic") << "which reaches farther, if both take as long";
  const ClassFit slow = first_class(15);
  EXPECT_EQ(slow.link_class, "pcie");
  EXPECT_EQ(slow.nominal, BytesPerSecond(15e9));
  EXPECT_NEAR(slow.other_latency.value, 8e-6, 1e-12) << "two NICs";
  EXPECT_NEAR(slow.latency.value, (30e-6 - 8e-6) / 2, 1e-9);
}

TEST(ExchangeFit, TakesTheFirstPlanOfAClassAndGoesOnWithOthers) {
  const Topology pairs =
      parse_topology(
          "name: t\nnodes: 2\nnode:\n  gpu: h100-sxm\n  gpus: 4\n"
          "  nvlink: {kind: pairs, bandwidth: 100 GB/s, latency: 1 us}\n"
          "  pcie: {bandwidth: 15 GB/s, latency: 2 us, sockets: 1}\n"
          "  nics: {count: 4, bandwidth: 25 GB/s, latency: 4 us}\nfabric: {kind: switch}\n",
          "t.yaml")
          .topology;
  const FittedFormula f(pairs, {.exchange = 10e-6,
                                .peer = 2e-6,
                                .outside = 30e-6,
                                .inside = 3e-6,
                                .outside_rate = 10e9,
                                .inside_rate = 80e9});
  ASSERT_EQ(f.fit.classes.size(), 2u);
  EXPECT_EQ(f.of("pcie").plan, "alltoall between nodes");
  EXPECT_EQ(f.of("nvlink").plan, "alltoall inside a pair");
}

TEST(ExchangeFit, ListsItsSizesByTheBytesOnTheLinkAndTheirErrors) {
  const Topology topology = switched_cluster(1, 3);
  FittedFormula f(topology, inside_a_node);
  EXPECT_LT(f.of("nvlink").worst, 1e-4) << "of a straight line";
  // Every third size takes a tenth longer, and one of its four runs seven times as long.
  const MicroPlan& micro = f.plans.at(1).micro;
  auto& timelines = f.times.at(micro.name).at(0);
  Timeline longer, wild;
  for (std::size_t op = 0; op < micro.plan.ops.size(); ++op) {
    const Interval i = timelines[0].ops[op][0];
    const bool third = op % 6 == 1;
    longer.ops.add_row(std::vector<Interval>(3, {i.start, i.end * (third ? 1.1 : 1)}));
    wild.ops.add_row(std::vector<Interval>(3, {i.start, i.end * (third ? 7 : 1)}));
  }
  timelines = {longer, wild, longer, longer};
  const ClassFit bent = fit_exchanges(topology, f.plans, f.times).classes.at(0);
  const auto sizes = static_cast<int>(micro.plan.ops.size() / 2);
  ASSERT_EQ(std::ssize(bent.sizes), sizes);
  EXPECT_EQ(bent.rejected, (sizes + 2) / 3);
  EXPECT_EQ(bent.kept, 4 * sizes - bent.rejected);
  EXPECT_EQ(bent.sizes.front().bytes, Bytes(2 * 64)) << "to two peers";
  std::vector<double> errors;
  const BandwidthTable table = bent.fit.table();
  for (const ClassFit::Size& size : bent.sizes) {
    const double fitted = (bent.fit.fixed + table.time(size.bytes)).value;
    EXPECT_NEAR(size.error, (fitted - size.time.value) / size.time.value, 1e-9);
    EXPECT_LT(std::abs(size.error), 0.2);
    errors.push_back(std::abs(size.error));
  }
  EXPECT_GT(bent.worst, 0.01);
  EXPECT_EQ(bent.worst, std::ranges::max(errors));
  EXPECT_NEAR(bent.typical, robust_median(errors).value, 1e-12);
}

TEST(ExchangeFit, PoolsSizesThatTakeLessTimeThanSmallerOnes) {
  const Topology topology = switched_cluster(1, 2);
  FittedFormula f(topology, inside_a_node);
  const MicroPlan& micro = f.plans.at(1).micro;
  const std::size_t last = micro.plan.ops.size() - 1;
  std::vector<double> seconds;
  for (std::size_t op = 0; op <= last; ++op) {
    seconds.push_back(f.times.at(micro.name).at(0)[0].ops[op][0].end.value);
  }
  std::swap(seconds[last - 4], seconds[last - 2]);
  take_times(micro, seconds, 1, f.times);
  const auto residuals = fit_exchanges(topology, f.plans, f.times).classes.at(0).fit.residuals;
  ASSERT_EQ(residuals.size(), (last + 1) / 2);
  const Seconds pooled((seconds[last - 4] + seconds[last - 2]) / 2);
  EXPECT_EQ(residuals[residuals.size() - 3].time, pooled);
  EXPECT_EQ(residuals[residuals.size() - 2].time, pooled);
}

TEST(ExchangeFit, KnowsTheSpreadOfItsMedians) {
  const Topology topology = switched_cluster(1, 2);
  FittedFormula f(topology, inside_a_node);
  EXPECT_EQ(f.of("nvlink").spread, 0);
  const MicroPlan& micro = f.plans.at(1).micro;
  auto& timelines = f.times.at(micro.name).at(0);
  Timeline longer;
  for (std::size_t op = 0; op < micro.plan.ops.size(); ++op) {
    const Interval i = timelines[0].ops[op][0];
    longer.ops.add_row(std::vector<Interval>(2, {i.start, i.end * 1.04}));
  }
  timelines[0] = longer;
  const double spread = fit_exchanges(topology, f.plans, f.times).classes.at(0).spread;
  EXPECT_NEAR(spread, robust_median({1, 1.04}).spread, 1e-9);
}

}  // namespace
}  // namespace moesim
