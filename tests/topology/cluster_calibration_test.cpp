// SPDX-License-Identifier: Apache-2.0
// What was measured of a whole cluster, in place of what its file states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

class ClusterCalibrated : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    write_file(folder_.path() + "/" + name, text);
    return folder_.path() + "/" + name;
  }
  /// Three GPUs at a switch of 4 GB/s, of which two pairs at once leave 1 GB/s.
  static std::string cluster(const std::string& calibration) {
    return "nodes: 1\n" + calibration +
           "node:\n  gpu: x\n  gpus: 3\n  nvlink: {kind: switch, bandwidth: 4 GB/s, "
           "latency: 1 us, crowded: {pairs: 2, bandwidth: 1 GB/s}}\n";
  }
  /// Calibrated by a link of 2 GB/s.
  Topology with_link(const std::string& nominal) const {
    file("link.calib.yaml", "source: a test\nlatency: 3 us\n" + nominal +
                                "bandwidth:\n  - {size: 1 MB, rate: 2 GB/s}\n");
    return parse(cluster("calibration: " +
                         file("c.calib.yaml",
                              "name: c\nexchange_overhead: 5 us\npeer_overhead: 2 us\n"
                              "links: {nvlink: link.calib.yaml}\n") +
                         "\n"));
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ClusterCalibrated, LinksAreAsMeasured) {
  const Topology t = with_link("");
  const Link& link = t.links().front();
  EXPECT_EQ(link.bandwidth, BytesPerSecond(2e9));
  EXPECT_DOUBLE_EQ(link.latency.value, 3e-6);
  EXPECT_EQ(link.crowded.bandwidth, BytesPerSecond(0.5e9)) << "half as fast as well";
  EXPECT_DOUBLE_EQ(t.exchange_overhead().value, 5e-6);
  EXPECT_DOUBLE_EQ(t.peer_overhead().value, 2e-6);
  EXPECT_EQ(t.measured_with(), "c");
}

TEST_F(ClusterCalibrated, LinksOfAnotherRateAreScaled) {
  const Topology t = with_link("nominal: 2 GB/s\n");
  EXPECT_EQ(t.links().front().bandwidth, BytesPerSecond(4e9));
  EXPECT_EQ(t.links().front().crowded.bandwidth, BytesPerSecond(1e9));
}

TEST_F(ClusterCalibrated, WithoutLinksNothingChangesButGpus) {
  const Topology plain = parse(cluster(""));
  const Topology t = parse(cluster(
      "calibration: " +
      file("c.calib.yaml", "name: c\nexchange_overhead: 5 us\ngpus: {x: y.yaml}\n") + "\n"));
  EXPECT_EQ(t.exchange_overhead(), plain.exchange_overhead());
  EXPECT_EQ(t.measured_with(), "");
  EXPECT_THAT(t.gpu_model(GpuId(0)), ::testing::EndsWith("/y.yaml"));
  EXPECT_THAT(errors(cluster(
                  "calibration: " + file("c.calib.yaml", "name: c\ngpus: {z: y.yaml}\n") + "\n")),
              ::testing::HasSubstr("'c' has measured a GPU 'z', which t lacks"));
}

TEST_F(ClusterCalibrated, LatenciesFarBelowTheMeasuredAreWarnedOf) {
  const std::string table = file("slow.calib.yaml",
                                 "name: slow\nsource: a test\nlatency: 100 us\n"
                                 "bandwidth:\n  - {size: 1 MB, rate: 2 GB/s}\n");
  const auto warned = [&](const std::string& latency) {
    return warnings("nodes: 1\nnode:\n  gpu: x\n  gpus: 2\n  nvlink: {kind: switch, calibration: " +
                    table + latency + "}\n");
  };
  EXPECT_EQ(warned(""), "");
  EXPECT_EQ(warned(", latency: 25 us"), "") << "another cable";
  EXPECT_THAT(warned(", latency: 1 us"),
              ::testing::HasSubstr("'node.nvlink.latency' is 1 us, in place of the 100 us of "
                                   "'slow': small exchanges take less than was measured"));
}

}  // namespace
}  // namespace moesim
