// SPDX-License-Identifier: Apache-2.0
// Fits as the files that are written and as the tables that people read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/calibrate/cluster_file.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GpuFit fit_to_report() {
  GpuFit fit;
  GemmTable fc1{find_op_type("fc1"), 256, 128, DataType::fp32, {}};
  fc1.groups[1].add(1, Seconds(5e-6));
  fc1.groups[1].add(100, Seconds(10e-6));
  fc1.groups[2].add(4, Seconds(8e-6));
  fc1.groups[2].add(10, Seconds(9e-6));
  fc1.groups[2].add(50, Seconds(20e-6));
  MemoryTable any{std::nullopt, {}}, sort{find_op_type("sort"), {}};
  any.bytes.add(4096, Seconds(2e-6));
  any.bytes.add(1e6, Seconds(10e-6));
  sort.bytes.add(1000, Seconds(3e-6));
  fit.model.tables = {{fc1}, {any, sort}};
  fit.model.memory = Bytes(48000000000);
  fit.model.memory_bandwidth = BytesPerSecond(123.4e9);
  fit.model.peak = {{DataType::fp32, FlopsPerSecond(327.68e9)}};
  fit.model.launch_overhead = Seconds(2e-6);
  fit.model.sms = 1;
  fit.kept = 90;
  fit.rejected = 10;
  fit.spread = 0.015;
  fit.left_out_typical = 0.03;
  fit.left_out_worst = 0.08;
  return fit;
}

TEST(CalibrationReports, ShowTheEndsOfEveryTableOfKernels) {
  EXPECT_EQ(kernel_report("a6000", fit_to_report()),
            "kernels of a6000: 100 times, 10 rejected; medians +-1.5 % (95 %); a GEMM left out of "
            "its table: 3.0 % typically, 8.0 % at worst\n"
            "kernel         n x k  points  smallest  time  largest   time           rate\n"
            "fc1        256 x 128       5     2 x 4  8 us   2 x 50  20 us  327.7 GFLOP/s\n"
            "any other                  2  4.096 kB  2 us     1 MB  10 us       100 GB/s\n"
            "sort                       1      1 kB  3 us     1 kB   3 us     333.3 MB/s\n");
}

TEST(CalibrationReports, SayHowLongKernelsAndExchangesTakeBesideEachOther) {
  OverlapFit fit;
  fit.factors = {1.25, 1.5};
  fit.compute = {
      .value = 1.25, .spread = 0.02, .least = 1.2, .most = 1.3, .kept = 8, .rejected = 0};
  EXPECT_EQ(overlap_report(fit),
            "kernels during exchanges take 1.250 times as long (+-2.0 %, 8 runs)\n"
            "exchanges during kernels take not measured (they did not meet for long enough)\n");
  fit.communication = {
      .value = 1.5, .spread = 0.01, .least = 1.5, .most = 1.5, .kept = 1, .rejected = 0};
  EXPECT_THAT(overlap_report(fit),
              HasSubstr("exchanges during kernels take 1.500 times as long (+-1.0 %, 1 run)\n"));
}

ClassFit class_to_report() {
  ClassFit c;
  c.link_class = "nic";
  c.plan = "alltoall between nodes";
  c.fit.fixed = Seconds(20e-6);
  c.fit.fixed_spread = Seconds(1e-6);
  c.fit.knots = {{{Bytes(1000000), BytesPerSecond(10e9)}, 3, 0.01},
                 {{Bytes(2000000), BytesPerSecond(12.5e9)}, 3, 0.01},
                 {{Bytes(4000000), BytesPerSecond(20e9)}, 3, 0.01},
                 {{Bytes(8000000), BytesPerSecond(25e9)}, 3, 0.01}};
  c.fit.line_error = 0.4;
  c.latency = Seconds(4e-6);
  c.nominal = BytesPerSecond(25e9);
  const auto time = [](double value, double spread) {
    return Robust{
        .value = value, .spread = spread, .least = 0, .most = 1, .kept = 5, .rejected = 0};
  };
  c.sizes = {{Bytes(1000000), time(100e-6, 0.02), 0.2},
             {Bytes(8000000), time(400e-6, 0.01), -0.15}};
  c.typical = 0.175;
  c.worst = 0.2;
  c.spread = 0.015;
  c.kept = 30;
  c.rejected = 2;
  return c;
}

TEST(CalibrationReports, ShowOverheadsAndEverySizeOfALinkClass) {
  ExchangeFit fit;
  EXPECT_EQ(exchange_report(fit), "no exchanges: one rank\n");
  fit.exchange_overhead = {
      .value = 12e-6, .spread = 0.03, .least = 11e-6, .most = 13e-6, .kept = 1, .rejected = 7};
  fit.peer_overhead = 1.5e-6;
  fit.classes = {class_to_report()};
  // Of 2 MB: 133 us between its neighbours and not 160, and 20 us whatever the bytes.
  EXPECT_EQ(
      exchange_report(fit),
      "exchange overhead 12 us +-3.0 % (95 %), 8 times, 7 rejected; per peer 1.5 us\n\n"
      "nic (by 'alltoall between nodes'): 32 times, 2 rejected; medians +-1.5 % (95 %)\n"
      "an exchange takes 20 us +- 1 us (95 %) whatever its bytes; latency of a link 4 us\n"
      "bytes on link  measured     95 %     rate  fit off by\n"
      "         1 MB    100 us  +-2.0 %  10 GB/s     +20.0 %\n"
      "         8 MB    400 us  +-1.0 %  20 GB/s     -15.0 %\n"
      "fit: typically 17.5 % off, at worst 20.0 %; a point left out: 10.4 % typically, 14.8 % "
      "at worst; a straight line: 40.0 % at worst\n");
  fit.classes[0].fit.fixed_spread.reset();
  EXPECT_THAT(exchange_report(fit), HasSubstr("\nan exchange takes 20 us whatever its bytes; "));
  fit.classes[0].fit.knots.resize(2);
  EXPECT_THAT(exchange_report(fit), HasSubstr("a point left out: 0.0 % typically, 0.0 % at worst"))
      << "the ends are never left out";
}

TEST(CalibrationReports, CompareWithTheSimulatorPlanByPlan) {
  EXPECT_EQ(check_report({{"alltoall between nodes", true, 12, 0.01, -0.025, Bytes(4000)},
                          {"uneven", false, 3, 0.1, 0.25, Bytes(64)}}),
            "exchanges                       count  typically off    worst  at bytes of a rank\n"
            "alltoall between nodes  fitted     12          1.0 %   -2.5 %                4 kB\n"
            "uneven                              3         10.0 %  +25.0 %                64 B\n");
}

Provenance provenance_to_report() {
  Provenance p;
  p.moesim = "1.2.3";
  p.command = "moesim-hw calibrate -o mine";
  p.date = "2026-01-02";
  p.backend = "Open MPI; OpenBLAS";
  p.topology = "two";
  p.model = "tiny";
  p.processors = {"a Xeon", "an EPYC"};
  p.hosts = {"b", "a"};
  p.ranks = 4;
  p.rounds = {.rounds = 2, .repeats = 6};
  return p;
}

const std::string provenance_in_yaml =
    "provenance:  # of the measurements\n"
    "  moesim: \"1.2.3\"\n"
    "  command: \"moesim-hw calibrate -o mine\"\n"
    "  date: \"2026-01-02\"\n"
    "  backend: \"Open MPI; OpenBLAS\"\n"
    "  processors: [\"a Xeon\", \"an EPYC\"]\n"
    "  hosts: [\"b\", \"a\"]\n"
    "  ranks: 4\n"
    "  topology: \"two\"\n"
    "  model: \"tiny\"\n"
    "  rounds: 2\n"
    "  runs_of_a_round: 6\n";

TEST(CalibrationFiles, SayWhereTheirFiguresComeFrom) {
  EXPECT_EQ(yaml_of(provenance_to_report()), provenance_in_yaml);
  EXPECT_EQ(header_of(provenance_to_report(), 9),
            "# moesim-hw calibrate, Open MPI; OpenBLAS, 4 ranks on 2 hosts, a Xeon; an EPYC\n"
            "# two, tiny; 9 plans, 2 rounds: one checked run, then 6 timed runs\n\n");
}

TEST(CalibrationFiles, HaveTheTableOfALinkAndHowWellItFits) {
  EXPECT_EQ(link_yaml("mine-nic", class_to_report(), provenance_to_report()),
            "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
            "name: \"mine-nic\"\n"
            "source: \"links 'nic', measured by 'alltoall between nodes'\"\n"
            "latency: 4 us  # measured; of one link\n"
            "nominal: 25 GB/s  # of the topology's link\n"
            "bandwidth:  # measured; by the bytes that one exchange puts on the link\n"
            "  - {size: 1000000 B, rate: 10 GB/s}\n"
            "  - {size: 2000000 B, rate: 12.5 GB/s}\n"
            "  - {size: 4000000 B, rate: 20 GB/s}\n"
            "  - {size: 8000000 B, rate: 25 GB/s}\n"
            "fit:  # derived from the residuals\n"
            "  fixed_time: 20 us\n"
            "  fixed_time_95: 1 us\n"
            "  samples: 32\n"
            "  rejected: 2\n"
            "  median_95: 1.5 %\n"
            "  typical_error: 17.5 %\n"
            "  worst_error: 20.0 %\n"
            "  error_of_a_point_left_out: 10.4 %\n"
            "  worst_error_of_a_point_left_out: 14.8 %\n"
            "  worst_error_of_a_line: 40.0 %\n" +
                provenance_in_yaml);
}

TEST(CalibrationFiles, HaveTheRatesAndTablesOfAGpu) {
  GpuFit fit = fit_to_report();
  const std::string yaml = gpu_yaml("mine", "a6000", fit, provenance_to_report());
  EXPECT_THAT(yaml, ::testing::StartsWith(
                        "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
                        "name: \"mine\"\n"
                        "source: \"moesim-hw calibrate, 2026-01-02\"\n"
                        "memory: 48000000000 B  # as stated for a6000\n"
                        "memory_bandwidth: 123.4 GB/s  # measured; the best of the tables below\n"
                        "peak:  # measured; the best of the tables below\n"
                        "  fp32: 327.68 GFLOP/s\n"
                        "launch_overhead: 2 us  # measured; the least of the tables below\n"
                        "sms: 1  # multiprocessors, as the GPUs say\n"
                        "gemm:  # measured; medians over runs and ranks\n"));
  EXPECT_THAT(yaml, HasSubstr("      - {groups: 2, m: 50, time: 20 us}\n"));
  EXPECT_THAT(yaml, HasSubstr("      - {bytes: 1000000 B, time: 10 us}\n"));
  EXPECT_THAT(yaml, ::testing::EndsWith("fit:  # derived from the times\n"
                                        "  samples: 100\n"
                                        "  rejected: 10\n"
                                        "  median_95: 1.5 %\n"
                                        "  error_of_a_gemm_left_out: 3.0 %\n"
                                        "  worst_error_of_a_gemm_left_out: 8.0 %\n" +
                                        provenance_in_yaml));
  fit.model.sms = 0;
  fit.model.overlap = {1.25, 1};
  const std::string overlapping = gpu_yaml("mine", "a6000", fit, provenance_to_report());
  EXPECT_THAT(overlapping,
              HasSubstr("# sms is unknown: the times do not say. Add it if software takes "
                        "multiprocessors.\n"
                        "overlap: {compute: 1.25, communication: 1}  # measured\n"
                        "gemm:"));
  EXPECT_THAT(yaml, Not(HasSubstr("overlap:"))) << "nothing takes longer";
}

}  // namespace
}  // namespace moesim
