// SPDX-License-Identifier: Apache-2.0
// The transports in transports/: they read, and say of shipped clusters what they know.
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/transport/coverage.h"
#include "tests/transport/fixtures.h"

namespace moesim::test {
namespace {

Transport shipped(const std::string& name) {
  return read_transport(std::string(MOESIM_ROOT) + "/transports/" + name + ".yaml");
}

std::string coverage(const std::string& transport, const std::string& topology) {
  const auto file = read_topology(std::string(MOESIM_ROOT) + "/topologies/" + topology + ".yaml");
  return coverage_of(shipped(transport), file.topology);
}

TEST(ShippedTransports, AllReadAndAreNamedAsTheirFiles) {
  const std::vector<std::string> names = data_names("transports");
  ASSERT_GE(names.size(), 8U);
  for (const std::string& name : names) {
    const Transport t = shipped(name);
    EXPECT_EQ(t.name, name);
    EXPECT_FALSE(t.description.empty()) << name;
    EXPECT_EQ(t.ideal(), name == "ideal");
    EXPECT_TRUE(t.others.empty() || !shipped(t.others).ideal()) << name;
  }
}

TEST(ShippedTransports, SayWhatTheyWereNotMeasuredOn) {
  EXPECT_EQ(coverage("ideal", "h100-rail"), "");
  EXPECT_EQ(coverage("nccl-p2p", "h100-rail"), "nvlink, nic calibrated");
  EXPECT_EQ(coverage("nccl-p2p", "h100-efa"), "nvlink, nic calibrated");
  EXPECT_EQ(coverage("nccl-p2p", "b200-efa"),
            "nvlink calibrated, nic assumed as on efa (efa-v4 not measured)");
  EXPECT_EQ(coverage("nccl-p2p", "a100-rail"),
            "nvlink calibrated, nic of 25 GB/s from measurements at 50 GB/s");
  EXPECT_EQ(coverage("deepep-normal", "h100-nccl"),
            "links and overheads as measured with nccl-p2p");
  EXPECT_EQ(coverage("nvl-fused", "hybridep-l"), "nic, wan by data sheet (not measured)");
}

// 315 of 450 GB/s in an all-to-all of 8 H100 with 512 MiB each (ai-dynamo/aiconfigurator).
TEST(ShippedTransports, NcclYieldsWhatItWasMeasuredTo) {
  const auto file = read_topology(std::string(MOESIM_ROOT) + "/topologies/h100-rail.yaml",
                                  {parse_override("nodes=1")});
  ByteMatrix all{Bytes(64 << 20)};
  for (int from = 0; from < 8; ++from) {
    std::vector<std::uint32_t> row(8, 1);
    row[static_cast<std::size_t>(from)] = 0;
    all.add_dense_row(row);
  }
  const Seconds time = time_by(shipped("nccl-p2p"), file.topology, all).total();
  EXPECT_NEAR(time.value, 1490e-6, 0.03 * 1490e-6);
}

}  // namespace
}  // namespace moesim::test
