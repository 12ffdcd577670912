// SPDX-License-Identifier: Apache-2.0
// Links whose bandwidth depends on the bytes of an exchange.
#include "sim/topology/bandwidth_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "sim/topology/asymptote.h"
#include "sim/topology/read/calibration_reader.h"
#include "sim/topology/reader.h"
#include "sim/topology/show/summary.h"
#include "sim/topology/topology_changes.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

using Points = std::vector<BandwidthTable::Point>;

// 1 MB in 1 ms, 4 MB in 2 ms.
const Points two = {{Bytes(1'000'000), BytesPerSecond(1e9)},
                    {Bytes(4'000'000), BytesPerSecond(2e9)}};

TEST(BandwidthTable, IsLinearInTimeBetweenPoints) {
  const BandwidthTable table(two);
  EXPECT_DOUBLE_EQ(table.time(Bytes(1'000'000)).value, 1e-3);
  EXPECT_DOUBLE_EQ(table.time(Bytes(2'500'000)).value, 1.5e-3);
  EXPECT_DOUBLE_EQ(table.time(Bytes(4'000'000)).value, 2e-3);
}

TEST(BandwidthTable, KeepsTheRateOfItsEnds) {
  const BandwidthTable table(two);
  EXPECT_DOUBLE_EQ(table.time(Bytes(10'000)).value, 1e-5);
  EXPECT_DOUBLE_EQ(table.time(Bytes(40'000'000)).value, 2e-2);
  EXPECT_EQ(table.most(), BytesPerSecond(2e9));
  EXPECT_EQ(asymptote_of(table), BytesPerSecond(2e9));
}

TEST(BandwidthTable, KnowsTheBestRateUpToASize) {
  const BandwidthTable falling(
      {{Bytes(1'000'000), BytesPerSecond(10e9)}, {Bytes(10'000'000), BytesPerSecond(4e9)}});
  for (const int size : {1, 1'000'000, 2'000'000, 20'000'000}) {
    EXPECT_EQ(falling.most_up_to(Bytes(size)), BytesPerSecond(10e9)) << size;
  }
  const BandwidthTable rising(two);
  EXPECT_EQ(rising.most_up_to(Bytes(1)), rising.points().front().rate);
  EXPECT_DOUBLE_EQ(rising.most_up_to(Bytes(2'500'000)).value, 2.5e6 / 1.5e-3);
  EXPECT_EQ(rising.most_up_to(Bytes(40'000'000)), BytesPerSecond(2e9));
}

TEST(BandwidthTable, TimesMayStayButNotFall) {
  Points points = two;
  points[1].rate = BytesPerSecond(4e9);
  EXPECT_DOUBLE_EQ(BandwidthTable(points).time(Bytes(3'000'000)).value, 1e-3);
  points[1].rate = BytesPerSecond(5e9);
  EXPECT_THROW(BandwidthTable{points}, std::invalid_argument);
  EXPECT_THROW(BandwidthTable({}), std::invalid_argument);
  EXPECT_THROW(BandwidthTable({two[0], two[0]}), std::invalid_argument);
}

TEST(BandwidthTable, ScalesItsRates) {
  const BandwidthTable twice = BandwidthTable(two).scaled(2);
  EXPECT_DOUBLE_EQ(twice.time(Bytes(2'500'000)).value, 0.75e-3);
  EXPECT_EQ(twice.most(), BytesPerSecond(4e9));
}

TEST(BandwidthTable, ScalesEqualTimesWhateverTheFactor) {
  const BandwidthTable flat({{Bytes(1), BytesPerSecond(1e9)},
                             {Bytes(3), BytesPerSecond(3e9)},
                             {Bytes(7), BytesPerSecond(7e9)}});
  for (double factor = 1e-4; factor < 1e4; factor *= 1.0137) {
    EXPECT_NEAR(flat.scaled(factor).most().value / factor, 7e9, 1) << factor;
  }
}

std::string with(const std::string& wire) {
  return "nodes: 1\nnode:\n  gpu: x\n  gpus: 2\n  nvlink:\n    kind: switch\n" + wire;
}

double longest(const LinkLoads& loads) {
  return std::ranges::max(loads.uses, {}, &LinkUse::time).time.value;
}

ByteMatrix one_way(std::int64_t bytes) {
  return ByteMatrix::from_dense(2, std::vector<std::int64_t>{0, bytes, 0, 0});
}

TEST(BandwidthTable, SlowsSmallExchanges) {
  const Topology t = std::move(parse_topology(with("    latency: 1 us\n    bandwidth:\n"
                                                   "      - {size: 1 MB, rate: 1 GB/s}\n"
                                                   "      - {size: 4 MB, rate: 2 GB/s}\n"),
                                              "t")
                                   .topology);
  EXPECT_EQ(t.links().front().bandwidth, BytesPerSecond(2e9));
  const auto seconds = [&](std::int64_t bytes) {
    const LinkLoads loads = t.loads(one_way(bytes));
    return longest(loads);
  };
  EXPECT_DOUBLE_EQ(seconds(1'000'000), 1e-3);
  EXPECT_DOUBLE_EQ(seconds(2'500'000), 1.5e-3);
  EXPECT_DOUBLE_EQ(seconds(8'000'000), 4e-3);
  // In four rounds, whose parts overlap.
  const ByteMatrix four = one_way(4'000'000);
  EXPECT_DOUBLE_EQ(longest(t.loads({four, t.all_gpus(), false, 4})), 2e-3);
}

// A flat start: a fixed time hides nearly all that the first size takes.
TEST(BandwidthTable, MakesALinkAsFastAsItsAsymptote) {
  const Topology t = std::move(parse_topology(with("    latency: 1 us\n    bandwidth:\n"
                                                   "      - {size: 8 MB, rate: 292 GB/s}\n"
                                                   "      - {size: 16 MB, rate: 5 GB/s}\n"
                                                   "      - {size: 128 MB, rate: 2.5 GB/s}\n"),
                                              "t")
                                   .topology);
  EXPECT_EQ(t.links().front().bandwidth, BytesPerSecond(2.5e9));
  EXPECT_EQ(summarize(t).gpus.front().out.most, BytesPerSecond(2.5e9));
  const auto seconds = [&](std::int64_t bytes) { return longest(t.loads(one_way(bytes))); };
  EXPECT_DOUBLE_EQ(seconds(8'000'000), 8e6 / 292e9) << "times are the table's";
  EXPECT_DOUBLE_EQ(seconds(128'000'000), 128e6 / 2.5e9);
  TopologyChanges twice;
  twice.bandwidth[t.links().front().link_class] = 2;
  EXPECT_EQ(changed(t, twice).links().front().bandwidth, BytesPerSecond(5e9));
}

TEST(BandwidthTable, MultipliesWithCrowding) {
  const Topology t = std::move(
      parse_topology("nodes: 1\nnode:\n  gpu: x\n  gpus: 3\n  nvlink:\n    kind: switch\n"
                     "    latency: 1 us\n    crowded: {pairs: 2, bandwidth: 1 GB/s}\n"
                     "    bandwidth: [{size: 1 MB, rate: 1 GB/s}, {size: 4 MB, rate: 2 GB/s}]\n",
                     "t")
          .topology);
  const LinkLoads loads = t.loads(
      ByteMatrix::from_dense(3, std::vector<std::int64_t>{0, 500'000, 500'000, 0, 0, 0, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(longest(loads), 2e-3);
}

TEST(BandwidthTable, MistakesAreTold) {
  EXPECT_EQ(errors(with("    latency: 1 us\n    bandwidth:\n"
                        "      - {size: 1 MiB, rate: 1 GB/s}\n"
                        "      - {size: 1 MiB, rate: 1 GB/s}\n"
                        "      - {size: 2 MiB, rate: 3 GB/s}\n"
                        "      - {size: 3 MiB}\n")),
            "t.yaml:10:16: error: sizes ascend, but 1.049 MB follows 1.049 MB\n"
            "        - {size: 1 MiB, rate: 1 GB/s}\n"
            "                 ^\n"
            "hint: sort the list, each size once\n"
            "t.yaml:11:29: error: 2.097 MB would take less time than 1.049 MB\n"
            "        - {size: 2 MiB, rate: 3 GB/s}\n"
            "                              ^\n"
            "hint: a rate may grow no faster than the size\n"
            "t.yaml:12:9: error: 'node.nvlink.bandwidth.3' lacks the key 'rate'\n"
            "        - {size: 3 MiB}\n"
            "          ^\n");
  EXPECT_EQ(errors(with("    latency: 1 us\n    bandwidth:\n"
                        "      - {size: 1 MB, rate: 1 GB/s}\n"
                        "      - {size: 2 MB, rate: 2 GB/s}\n")),
            "")
      << "as long as the smaller one";
  EXPECT_EQ(errors(with("    latency: 1 us\n    bandwidth: []\n")),
            "t.yaml:8:16: error: 'bandwidth' has no points\n"
            "      bandwidth: []\n"
            "                 ^\n"
            "hint: a list of {size: 1 MiB, rate: 20 GB/s}\n");
}

class CalibrationFile : public testing::Test {
 protected:
  CalibrationFile() : path_(std::filesystem::temp_directory_path() / "moesim-test.calib.yaml") {
    std::ofstream(path_) << "source: a test\nlatency: 3 us\nbandwidth:\n"
                            "  - {size: 1 MB, rate: 1 GB/s}\n"
                            "fit: {worst: 1 %}\nprovenance: [{file: a.log}]\n";
  }
  ~CalibrationFile() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(CalibrationFile, GivesALinkItsTableAndLatency) {
  const Topology t =
      std::move(parse_topology(with("    calibration: " + path_.string() + "\n"), "t").topology);
  EXPECT_EQ(t.links().front().latency, Seconds(3e-6));
  EXPECT_EQ(t.links().front().bandwidth, BytesPerSecond(1e9));
  const Topology faster = std::move(
      parse_topology(with("    calibration: " + path_.string() + "\n    latency: 1 us\n"), "t")
          .topology);
  EXPECT_EQ(faster.links().front().latency, Seconds(1e-6));
}

TEST_F(CalibrationFile, IsFoundNextToTheTopologyThatNamesIt) {
  const std::string topology = (path_.parent_path() / "moesim-test-topology.yaml").string();
  for (const char* name : {"moesim-test", "moesim-test.calib.yaml", "./moesim-test.calib.yaml"}) {
    const std::string text = with(fmt::format("    calibration: {}\n", name));
    EXPECT_EQ(parse_topology(text, topology).topology.links().front().latency, Seconds(3e-6))
        << name;
  }
}

TEST_F(CalibrationFile, IsReadByItself) {
  const LinkCalibration calibration = read_calibration(path_.string());
  EXPECT_EQ(calibration.name, "moesim-test");
  EXPECT_EQ(calibration.source, "a test");
}

TEST_F(CalibrationFile, MustBeThere) {
  EXPECT_NE(
      errors(with("    calibration: nowhere\n")).find("t.yaml:7:18: error: no 'nowhere.calib'"),
      std::string::npos);
}

TEST_F(CalibrationFile, WithoutNominalLeavesNoRoomForABandwidth) {
  EXPECT_NE(
      errors(with("    calibration: " + path_.string() + "\n    bandwidth: 1 GB/s\n"))
          .find("t.yaml:8:16: error: 'moesim-test' does not say of what bandwidth its link "
                "was\n      bandwidth: 1 GB/s\n                 ^\nhint: leave 'bandwidth' out, "
                "or add 'nominal' to the calibration (moesim calibrate --nominal)\n"),
      std::string::npos);
}

// The measured link is one of 16 Gbit/s.
TEST_F(CalibrationFile, ScalesToAnotherBandwidth) {
  std::ofstream(path_, std::ios::app) << "nominal: 16 Gbit/s\n";
  const auto link = [&](const std::string& more) {
    return parse_topology(with("    calibration: " + path_.string() + "\n" + more), "t")
        .topology.links()
        .front();
  };
  EXPECT_EQ(link("").bandwidth, BytesPerSecond(1e9));
  EXPECT_EQ(link("    bandwidth: 2 GB/s\n").bandwidth, BytesPerSecond(1e9));
  EXPECT_EQ(link("    bandwidth: 2 GB/s\n").table->points(), link("").table->points());
  const Link faster = link("    bandwidth: 80 Gbit/s\n");
  EXPECT_EQ(faster.bandwidth, BytesPerSecond(5e9));
  EXPECT_EQ(faster.table->points().at(0),
            (BandwidthTable::Point{Bytes(1'000'000), BytesPerSecond(5e9)}));
  EXPECT_EQ(faster.latency, Seconds(3e-6)) << "stays";
  EXPECT_EQ(link("    bandwidth: 1 GB/s\n    latency: 1 us\n").bandwidth, BytesPerSecond(0.5e9));
  EXPECT_EQ(link("    bandwidth: 1 GB/s\n    latency: 1 us\n").latency, Seconds(1e-6));
}

TEST_F(CalibrationFile, ScalesInEveryPlaceOfALink) {
  std::ofstream(path_, std::ios::app) << "nominal: 2 GB/s\n";
  const std::string wire = "{calibration: " + path_.string() + ", bandwidth: 4 GB/s}";
  const std::string inside = wire.substr(1, wire.size() - 2);
  const Topology t = std::move(
      parse_topology("data_centers: 2\nnodes: 2\nnode:\n  gpu: x\n  gpus: 2\n"
                     "  nvlink: {kind: switch, " +
                         inside + "}\n  pcie: " + wire + "\n  nics: {count: 2, " + inside +
                         "}\n"
                         "fabric: {kind: torus, dimensions: [2], " +
                         inside +
                         "}\n"
                         "wan: {kind: hub, " +
                         inside + "}\n",
                     "t")
          .topology);
  EXPECT_GE(t.classes().size(), 5U);
  for (const Link& link : t.links()) {
    const std::string& name = t.classes()[link.link_class].name;
    if (name == "gateway") continue;
    EXPECT_EQ(link.bandwidth, BytesPerSecond(2e9)) << name;
  }
  const std::string explicit_form =
      "vertices:\n  - {name: a, kind: gpu, host: h, gpu: x}\n"
      "  - {name: b, kind: gpu, host: h, gpu: x}\n"
      "links:\n  - {from: a, to: b, class: nvlink, " +
      inside + "}\n";
  EXPECT_EQ(parse_topology(explicit_form, "t").topology.links().front().bandwidth,
            BytesPerSecond(2e9));
}

TEST_F(CalibrationFile, MistakesOfScalingAreTold) {
  std::ofstream(path_, std::ios::app) << "nominal: 0 GB/s\n";
  EXPECT_NE(errors(with("    calibration: " + path_.string() + "\n")).find("'nominal' is 0 GB/s"),
            std::string::npos);
  std::ofstream(path_) << "latency: 3 us\nbandwidth: [{size: 1 MB, rate: 1 GB/s}]\n"
                          "nominal: 2 GB/s\n";
  const auto mistake = [&](const std::string& bandwidth) {
    return errors(
        with("    calibration: " + path_.string() + "\n    bandwidth: " + bandwidth + "\n"));
  };
  EXPECT_NE(mistake("2").find("'node.nvlink.bandwidth' needs a unit"), std::string::npos);
  EXPECT_NE(mistake("[{size: 1 MB, rate: 1 GB/s}]")
                .find("there are a 'calibration' and a table of bandwidths"),
            std::string::npos);
}

}  // namespace
}  // namespace moesim
