// SPDX-License-Identifier: Apache-2.0
// Stands in for exact_test.cpp where GLPK is not.
#include <gtest/gtest.h>

TEST(ExactTest, NeedsGlpk) { GTEST_SKIP() << "built without GLPK: no exact placements"; }
