// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(OwnersTest, FindsTheOneGpuOfEachExpert) {
  EXPECT_THAT(owners_of(slots({{2, 0}, {}, {1}})), ElementsAre(GpuId(0), GpuId(2), GpuId(0)));
  EXPECT_THROW(owners_of(slots({{0, 1}, {1}})), Error);
  EXPECT_THROW(owners_of(slots({{0}, {2}})), Error);
  EXPECT_THROW(owners_of(slots({{-1}})), Error);
}

TEST(OwnersTest, RefusesLoadsOfOtherShapes) {
  EXPECT_EQ(owners_of(slots({{0}, {1}}), LoadMatrix(2, 2)).size(), 2u);
  EXPECT_THROW(owners_of(slots({{0}, {1}}), LoadMatrix(3, 2)), Error);
  EXPECT_THROW(owners_of(slots({{0}, {1}}), LoadMatrix(2, 1)), Error);
}

TEST(OwnersTest, OrdersByLoadThenId) {
  const std::vector<std::int64_t> loads = {3, 5, 3, 9, 5};
  EXPECT_THAT(heaviest_first(loads),
              ElementsAre(ExpertId(3), ExpertId(1), ExpertId(4), ExpertId(0), ExpertId(2)));
}

TEST(TransfersTest, SumUpAndLeaveOutWhatStays) {
  const std::vector<ExpertTransfer> transfers = {{ExpertId(0), GpuId(0), GpuId(1), Bytes(6)},
                                                 {ExpertId(1), GpuId(0), GpuId(1), Bytes(10)},
                                                 {ExpertId(2), GpuId(1), GpuId(1), Bytes(4)}};
  EXPECT_EQ(off_gpu(transfers), Bytes(16));
  const ByteMatrix traffic = traffic_of(transfers, 2);
  EXPECT_EQ(traffic.at(GpuId(0), GpuId(1)), Bytes(16));
  EXPECT_EQ(traffic.total(), Bytes(20));
  EXPECT_EQ(traffic.off_diagonal(), Bytes(16));
}

}  // namespace
}  // namespace moesim
