// SPDX-License-Identifier: Apache-2.0
// Tables and factors of contention from a few times, against their closed forms.
#include "realhw/calibrate/kernel_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/realhw/calibrate/clusters.h"

namespace moesim {
namespace {

/// Times of ops by GPU, in microseconds unless told otherwise.
struct TimedOps {
  explicit TimedOps(int gpus) { micro.plan.gpus = gpus; }
  void add_kernels(OpKey key, Kernels kernels, const std::vector<Interval>& times) {
    micro.plan.add(
        {"kernel", key, Stream::compute, Group::first(micro.plan.gpus), {}, std::move(kernels)});
    add_row(times);
  }
  void exchange(Probe probe, const std::vector<Interval>& times) {
    add_exchange(micro.plan, probe, Stream::ep, ByteMatrix());
    add_row(times);
  }
  void add_row(std::vector<Interval> times) {
    for (Interval& i : times) i = {i.start * unit, i.end * unit};
    timeline.ops.add_row(times);
  }
  Times times() const { return {{micro.name, {{0, {timeline}}}}}; }
  std::map<std::string, GpuFit> fits(const Topology& topology,
                                     const std::map<std::string, GpuModel>& stated) const {
    return fit_kernels(topology, {&micro}, stated, {1.5, 1.25}, times());
  }
  MicroPlan micro{"timed", {}, {}};
  Timeline timeline;
  double unit = 1e-6;  // of times, in seconds
};

/// Intervals of these lengths; none begins at 0.
std::vector<Interval> lasting(const std::vector<double>& microseconds) {
  std::vector<Interval> times;
  for (const double length : microseconds) times.push_back({Seconds(64), Seconds(64 + length)});
  return times;
}

OpKey kind_key(OpKind kind) { return {.kind = kind}; }

Kernel product(std::vector<std::int64_t> m) {
  return GroupedGemm{std::move(m), 256, 128, DataType::fp32};
}

Kernel half_and_half(std::int64_t bytes) { return MemoryBound{Bytes(bytes / 2), Bytes(bytes / 2)}; }

GpuFit fit_on_four(const TimedOps& ops) {
  GpuModel stated;
  stated.memory = Bytes(77);
  const auto fits = ops.fits(switched_cluster(1, 4), {{"h100-sxm", stated}});
  EXPECT_EQ(fits.size(), 1u);
  return fits.at("h100-sxm");
}

TEST(KernelFit, HasTheMedianOfAllGpusAtTheRowsOfAGroup) {
  TimedOps ops(4);
  ops.add_kernels(kind_key(OpKind::fc1), product({6, 0, 6}), lasting({10, 11, 13, 14}));
  ops.add_kernels(kind_key(OpKind::fc1), product({1}), lasting({4, 4, 4, 4}));
  const GpuFit fit = fit_on_four(ops);
  ASSERT_EQ(fit.model.tables.gemm.size(), 1u);
  const GemmTable& table = fit.model.tables.gemm[0];
  EXPECT_EQ(name_of(table.op), "fc1");
  EXPECT_EQ(table.n, 256);
  EXPECT_EQ(table.k, 128);
  ASSERT_EQ(table.groups.size(), 2u) << "groups without rows cost nothing";
  EXPECT_NEAR(table.groups.at(2).points().at(6).value, 12e-6, 1e-12);
  EXPECT_NEAR(table.groups.at(1).points().at(1).value, 4e-6, 1e-12);
  EXPECT_EQ(fit.model.memory, Bytes(77)) << "as it is stated";
  EXPECT_EQ(fit.model.overlap.compute, 1.5);
  EXPECT_EQ(fit.model.overlap.communication, 1.25);
}

TEST(KernelFit, TakesTheBestRatesAndTheShortestTime) {
  TimedOps ops(4);
  ops.add_kernels(kind_key(OpKind::fc1), product({100, 100}), lasting({10, 10, 10, 10}));
  ops.add_kernels(kind_key(OpKind::fc1), product({10}), lasting({10, 10, 10, 10}));
  ops.add_kernels(kind_key(OpKind::fc2), product({50}), lasting({8, 8, 8, 8}));
  ops.add_kernels(kind_key(OpKind::sort), half_and_half(40000), lasting({2, 2, 2, 2}));
  ops.add_kernels(kind_key(OpKind::sort), half_and_half(400), lasting({3, 3, 3, 3}));
  const GpuFit fit = fit_on_four(ops);
  const double flops = 2.0 * 200 * 256 * 128;
  EXPECT_NEAR(fit.model.peak.at(DataType::fp32).value, flops / 10e-6, 1e-6 * flops / 10e-6);
  EXPECT_NEAR(fit.model.memory_bandwidth.value, 40000 / 2e-6, 1e4);
  EXPECT_NEAR(fit.model.launch_overhead.value, 2e-6, 1e-12);
  ASSERT_EQ(fit.model.tables.gemm.size(), 2u) << "a table by op";

  TimedOps products(4);
  products.add_kernels(kind_key(OpKind::fc1), product({10}), lasting({5, 5, 5, 5}));
  EXPECT_NEAR(fit_on_four(products).model.launch_overhead.value, 5e-6, 1e-12);
}

TEST(KernelFit, KnowsMemoryBoundKernelsByOpAndProbesForAnyOther) {
  TimedOps ops(4);
  ops.add_kernels(kind_key(OpKind::sort), half_and_half(4096), lasting({3, 3, 3, 3}));
  ops.add_kernels(key_of(Probe::sized), half_and_half(8192), lasting({7, 7, 7, 7}));
  const GpuFit fit = fit_on_four(ops);
  ASSERT_EQ(fit.model.tables.memory_bound.size(), 2u);
  const MemoryTable& any = fit.model.tables.memory_bound[0];
  const MemoryTable& sort = fit.model.tables.memory_bound[1];
  EXPECT_FALSE(any.op.has_value());
  EXPECT_NEAR(any.bytes.points().at(8192).value, 7e-6, 1e-12);
  EXPECT_EQ(name_of(sort.op), "sort");
  EXPECT_NEAR(sort.bytes.points().at(4096).value, 3e-6, 1e-12);
}

TEST(KernelFit, LeavesOutWhatTookNoTimeAndWhatIsNoKernelOfATable) {
  TimedOps ops(4);
  ops.exchange(Probe::sized, lasting({9, 9, 9, 9}));
  ops.add_kernels(kind_key(OpKind::fc1), product({6}), lasting({10, 0, 12, 14}));
  ops.add_kernels(kind_key(OpKind::planning), Kernel(HostWork{500}), lasting({1, 1, 1, 1}));
  const GpuFit fit = fit_on_four(ops);
  EXPECT_EQ(fit.kept, 3);
  EXPECT_EQ(fit.rejected, 0) << "it is not even an outlier";
  EXPECT_NEAR(fit.model.tables.gemm.at(0).groups.at(1).points().at(6).value, 12e-6, 1e-12);
  EXPECT_TRUE(fit.model.tables.memory_bound.empty());
}

TEST(KernelFit, CountsWhatItKeepsAndRejects) {
  TimedOps ops(4);
  const std::vector<double> with_outlier = {10, 10.2, 10.4, 70};
  ops.add_kernels(kind_key(OpKind::fc1), product({6}), lasting(with_outlier));
  ops.add_kernels(kind_key(OpKind::fc1), product({12}), lasting({10, 10, 10, 10}));
  ops.add_kernels(kind_key(OpKind::sort), half_and_half(400), lasting({20, 20.4, 20.8, 140}));
  const GpuFit fit = fit_on_four(ops);
  EXPECT_EQ(fit.kept, 3 + 4 + 3);
  EXPECT_EQ(fit.rejected, 2);
  EXPECT_NEAR(fit.spread, robust_median(with_outlier).spread, 1e-9) << "of the point in between";
  EXPECT_GT(fit.spread, 0);
}

/// Neighbours tell the times of a power of the rows; others are off.
TEST(KernelFit, TellsHowFarAGemmIsFromItsNeighbours) {
  TimedOps power(4), bent(4);
  for (const int m : {1, 4, 16, 64}) {
    const double straight = 10 * std::sqrt(m);
    power.add_kernels(kind_key(OpKind::fc1), product({m}),
                      lasting({straight, straight, straight, straight}));
  }
  EXPECT_NEAR(fit_on_four(power).left_out_worst, 0, 1e-9);
  const std::vector<std::pair<int, double>> bends = {{1, 10}, {4, 40}, {16, 40}, {64, 160}};
  for (const auto& [m, time] : bends) {
    bent.add_kernels(kind_key(OpKind::fc1), product({m}), lasting({time, time, time, time}));
  }
  // Between 10 and 40 are 20, half of 40; between 40 and 160 are 80, twice as much.
  EXPECT_NEAR(fit_on_four(bent).left_out_typical, (0.5 + 1) / 2, 1e-9);
  EXPECT_NEAR(fit_on_four(bent).left_out_worst, 1, 1e-9);
}

TEST(KernelFit, KeepsTheModelsOfAClusterApart) {
  const auto group = [](const std::string& gpu) {
    return "  - nodes: 1\n    node: {gpu: " + gpu +
           ", gpus: 1, pcie: {bandwidth: 50 GB/s, latency: 2 us}, nics: {count: 1, bandwidth: 25 "
           "GB/s, latency: 4 us}}\n";
  };
  const Topology two =
      parse_topology("groups:\n" + group("h100-sxm") + group("a6000") + "fabric: {kind: switch}\n",
                     "t.yaml")
          .topology;
  TimedOps ops(2);
  ops.add_kernels(kind_key(OpKind::fc1), Kernels({product({4}), product({8})}), lasting({5, 9}));
  GpuModel first, second;
  first.memory = Bytes(1);
  second.memory = Bytes(2);
  const auto fits = ops.fits(two, {{"h100-sxm", first}, {"a6000", second}});
  ASSERT_EQ(fits.size(), 2u);
  const auto points = [&](const std::string& name) {
    return fits.at(name).model.tables.gemm.at(0).groups.at(1).points();
  };
  EXPECT_NEAR(points("h100-sxm").at(4).value, 5e-6, 1e-12);
  EXPECT_NEAR(points("a6000").at(8).value, 9e-6, 1e-12);
  EXPECT_EQ(fits.at("h100-sxm").model.memory, Bytes(1));
  EXPECT_EQ(fits.at("a6000").model.memory, Bytes(2));
}

/// Kernels and exchanges by themselves and at once, on two GPUs.
struct BesideEachOther {
  Interval kernels_alone, exchanges_alone, kernels_beside, exchanges_beside;
  OverlapFit fit() const {
    TimedOps ops(2);
    ops.unit = 0x1p-20;  // of which sums are exact
    // Two of each: the first begins and the last ends.
    const auto twice = [](const Interval& i, const auto& add) {
      const Seconds middle((i.start.value + i.end.value) / 2);
      const Interval begin{i.start, middle}, end{middle, i.end};
      add(std::vector<Interval>{begin, begin});
      add(std::vector<Interval>{end, end});
    };
    const auto kernels = [&](Probe probe) {
      return [&ops, probe](const std::vector<Interval>& times) {
        ops.add_kernels(key_of(probe), product({1}), times);
      };
    };
    const auto exchanges = [&](Probe probe) {
      return [&ops, probe](const std::vector<Interval>& times) { ops.exchange(probe, times); };
    };
    twice(kernels_alone, kernels(Probe::alone));
    twice(exchanges_alone, exchanges(Probe::alone));
    twice(kernels_beside, kernels(Probe::beside));
    twice(exchanges_beside, exchanges(Probe::beside));
    return fit_overlap(ops.micro, ops.times());
  }
};

Interval from_to(double start, double end) { return {Seconds(start), Seconds(end)}; }

TEST(OverlapFit, IsByTheTimeThatBothWereThere) {
  // Together from 104 to 116. Kernels took 6 longer than alone, exchanges 3.
  const OverlapFit fit =
      BesideEachOther{from_to(1, 11), from_to(20, 43), from_to(100, 116), from_to(104, 130)}.fit();
  EXPECT_EQ(fit.compute.kept, 2) << "of each GPU";
  EXPECT_EQ(fit.communication.kept, 1);
  EXPECT_NEAR(fit.factors.compute, 1 / (1 - 6.0 / 12), 1e-6);
  EXPECT_NEAR(fit.factors.communication, 1 / (1 - 3.0 / 12), 1e-6);
}

TEST(OverlapFit, IsOneAtLeast) {
  const OverlapFit fit =
      BesideEachOther{from_to(1, 20), from_to(20, 50), from_to(100, 116), from_to(104, 130)}.fit();
  EXPECT_EQ(fit.factors.compute, 1);
  EXPECT_EQ(fit.factors.communication, 1);
  EXPECT_EQ(fit.compute.kept, 2);
  EXPECT_EQ(fit.communication.kept, 1);
}

TEST(OverlapFit, NeedsAThirdOfTheTimeTogether) {
  // Kernels of 12 meet exchanges of 48 for 4.
  const OverlapFit third =
      BesideEachOther{from_to(1, 12), from_to(20, 60), from_to(96, 108), from_to(104, 152)}.fit();
  EXPECT_EQ(third.compute.kept, 2);
  EXPECT_NEAR(third.factors.compute, 1 / (1 - 1.0 / 4), 1e-6);
  EXPECT_EQ(third.communication.kept, 0) << "a twelfth";
  EXPECT_EQ(third.factors.communication, 1);
  const OverlapFit less =
      BesideEachOther{from_to(1, 12), from_to(20, 60), from_to(96, 108), from_to(105, 152)}.fit();
  EXPECT_EQ(less.compute.kept, 0);
  EXPECT_EQ(less.factors.compute, 1);
}

TEST(OverlapFit, DoesNotTellWhatTookLongerThanBothWereThere) {
  const OverlapFit fit =
      BesideEachOther{from_to(1, 5), from_to(20, 34), from_to(100, 116), from_to(104, 130)}.fit();
  EXPECT_EQ(fit.compute.kept, 0) << "12 longer, of 12 together";
  EXPECT_EQ(fit.communication.kept, 0);
  const OverlapFit instant =
      BesideEachOther{from_to(1, 5), from_to(20, 34), from_to(110, 110), from_to(104, 130)}.fit();
  EXPECT_EQ(instant.compute.kept, 0) << "no time at all";
}

}  // namespace
}  // namespace moesim
