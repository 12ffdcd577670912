// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/exchange.h"

#include <gtest/gtest.h>

#include "tests/mechanism/placement/fsep/cases.h"
#include "tests/mechanism/placement/fsep/volume.h"

namespace moesim::fsep {
namespace {

TEST(ExchangeTest, MatricesAddUpToTheVolumes) {
  const SlotGrid grid{8, 4, 2};
  const FsepVolume volume = fsep_volume(ExpertSize{80}, grid);  // chunks of 10 parameters
  const Placement placement(
      3, table({{0, 0}, {1, 2}, {0, 1}, {0, 0}, {2, 2}, {0, 1}, {1, 1}, {2, 0}}));
  const ByteMatrix restore = restore_exchange(placement, volume.chunk);
  const ByteMatrix reduce = reduce_exchange(placement, volume.chunk);
  EXPECT_EQ(restore.total(), volume.restored * std::int64_t{8});
  EXPECT_EQ(restore.off_diagonal(), volume.per_rank * std::int64_t{8});
  EXPECT_EQ(restore, reduce);  // equal slots everywhere: both are uniform
  EXPECT_EQ(restore.at(GpuId(3), GpuId(5)), Bytes(40));
  Bytes out;
  for (int from = 0; from < 4; ++from) {
    for (int to = 4; to < 8; ++to) out += restore.at(GpuId(from), GpuId(to));
  }
  EXPECT_EQ(out, volume.node_inter_node);
}

TEST(ExchangeTest, BytesFollowTheSlots) {
  const Placement placement(2, table({{0, 1, 0}, {1}}));
  const ByteMatrix restore = restore_exchange(placement, Bytes(5));
  EXPECT_EQ(restore.at(GpuId(1), GpuId(0)), Bytes(15));
  EXPECT_EQ(restore.at(GpuId(0), GpuId(1)), Bytes(5));
  EXPECT_EQ(reduce_exchange(placement, Bytes(5)).at(GpuId(0), GpuId(1)), Bytes(15));
}

}  // namespace
}  // namespace moesim::fsep
