// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sim/base/figures.h"

namespace moesim {
namespace {

TEST(Counted, IsSingularForOneOnly) {
  EXPECT_EQ(counted(1, "host"), "1 host");
  EXPECT_EQ(counted(0, "host"), "0 hosts");
  EXPECT_EQ(counted(8, "GPU"), "8 GPUs");
  EXPECT_EQ(counted(-1, "step"), "-1 steps");
}

TEST(Counted, SpellsPlurals) {
  EXPECT_EQ(counted(2, "process"), "2 processes");
  EXPECT_EQ(counted(2, "batch"), "2 batches");
  EXPECT_EQ(counted(2, "policy"), "2 policies");
  EXPECT_EQ(counted(2, "replay"), "2 replays");
  EXPECT_EQ(counted(1, "policy"), "1 policy");
}

}  // namespace
}  // namespace moesim
