// SPDX-License-Identifier: Apache-2.0
// EP groups that span NVLink domains although one has room for them.
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/run/domains_text.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

Topology racks() {
  return read_topology(data_file("topologies", "gb200-nvl72"), {{"nodes", "4", ""}}).topology;
}

TEST(Domains, OfGroupsThatWouldFitIntoOne) {
  EXPECT_EQ(domains_text(racks(), 32),
            "#   3 of 9 EP groups span several NVLink domains of 72 GPUs, though each would fit "
            "into one: GPUs 64..95, ...\n");
  EXPECT_EQ(domains_text(racks(), 48),
            "#   2 of 6 EP groups span several NVLink domains of 72 GPUs, though each would fit "
            "into one: GPUs 48..95, ...\n");
}

TEST(Domains, AreNotNamedOfOtherGroups) {
  EXPECT_EQ(domains_text(racks(), 36), "");
  EXPECT_EQ(domains_text(racks(), 72), "");
  EXPECT_EQ(domains_text(racks(), 144), "") << "none has room";
  EXPECT_EQ(domains_text(racks(), 1), "");
}

TEST(Domains, AreThoseOfTheGroupsMembers) {
  const GpuGroups strided = {{GpuId(0), GpuId(72)}, {GpuId(1), GpuId(2)}};
  EXPECT_EQ(domains_text(racks(), strided),
            "#   1 of 2 EP groups spans several NVLink domains of 72 GPUs, though each would fit "
            "into one: GPUs 0..72\n");
}

}  // namespace
}  // namespace moesim
