// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/window.h"

#include <gtest/gtest.h>

#include "sim/mechanism/loads.h"

namespace moesim {
namespace {

LoadMatrix counts(std::int64_t first, std::int64_t second) {
  LoadMatrix loads(2, 2);
  loads.at(GpuId(0), ExpertId(0)) = first;
  loads.at(GpuId(1), ExpertId(1)) = second;
  return loads;
}

TEST(Window, SumsTheNewestSteps) {
  Window<LoadMatrix> window(3);
  EXPECT_TRUE(window.empty());
  for (int step = 1; step <= 5; ++step) window.add(counts(step, 10));
  EXPECT_EQ(window.size(), 3);
  EXPECT_EQ(window.sum(), counts(3 + 4 + 5, 30));
  EXPECT_EQ(window.newest(), counts(5, 10));
  EXPECT_EQ(window.newest(2), counts(3, 10));
}

TEST(Window, KnowsStepsOnceTheyAreOldEnough) {
  Window<LoadMatrix> window(2, 3);
  window.add(counts(1, 10));
  window.add(counts(2, 10));
  EXPECT_TRUE(window.empty());
  window.add(counts(3, 10));
  EXPECT_EQ(window.sum(), counts(1, 10));
  window.add(counts(4, 10));
  window.add(counts(5, 10));
  window.add(counts(60, 10), false);  // more of step 5
  EXPECT_EQ(window.size(), 2);
  EXPECT_EQ(window.sum(), counts(2 + 3, 20));
  window.add(counts(6, 10));
  window.add(counts(7, 10));
  EXPECT_EQ(window.newest(), counts(65, 20));
}

TEST(LoadMatrix, TotalsKeepTheLoadsOfExperts) {
  EXPECT_EQ(counts(4, 10).totals().per_expert(), counts(4, 10).per_expert());
  EXPECT_EQ(counts(4, 10).totals().sources(), 1);
}

TEST(LoadMatrix, RowsAreThoseOfSomeSources) {
  EXPECT_EQ(counts(4, 10).rows(GpuId(1), 1).per_expert(), (std::vector<std::int64_t>{0, 10}));
  EXPECT_EQ(counts(4, 10).rows(GpuId(0), 2), counts(4, 10));
}

}  // namespace
}  // namespace moesim
