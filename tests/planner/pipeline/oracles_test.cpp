// SPDX-License-Identifier: Apache-2.0
// Small pipelines whose times were worked out apart from this code. B is 2 = 1 + 1 unless said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/planner/pipeline/stage_orders.h"
#include "tests/planner/pipeline/pipelines.h"

namespace moesim {
namespace {

using test::costs;
using test::Kind;
using test::makespan;
using test::peaks;
using test::pipeline;
using test::worst_bubble;
using ::testing::ElementsAre;

TEST(PipelineOracles, OneForwardOneBackward) {
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::one_f_one_b, 4, 8), costs(1, 1, 1)), 33);
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::one_f_one_b, 8, 16), costs(1, 1, 1)), 69);
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::gpipe, 4, 8), costs(1, 1, 1)), 33);
  EXPECT_THAT(peaks(pipeline(Kind::one_f_one_b, 4, 8)), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(pipeline(Kind::gpipe, 4, 8)), ElementsAre(8, 8, 8, 8));
}

TEST(PipelineOracles, Interleaved) {
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::interleaved, 4, 16, 2), costs(1, 1, 1)), 105);
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::interleaved, 8, 32, 2), costs(1, 1, 1)), 213);
  EXPECT_EQ(peaks(pipeline(Kind::interleaved, 4, 16, 2))[0], 11);
  EXPECT_EQ(peaks(pipeline(Kind::interleaved, 8, 32, 2))[0], 23);
}

TEST(PipelineOracles, CombinedInterleaved) {
  const auto small = pipeline(Kind::combined_interleaved, 4, 16, 2);
  const auto large = pipeline(Kind::combined_interleaved, 8, 32, 2);
  EXPECT_DOUBLE_EQ(makespan(small, costs(1, 1, 1, 3)), 105);
  EXPECT_DOUBLE_EQ(makespan(large, costs(1, 1, 1, 3)), 213);
  EXPECT_DOUBLE_EQ(makespan(small, costs(1, 1, 1, 2)), 78);
  EXPECT_DOUBLE_EQ(makespan(large, costs(1, 1, 1, 2)), 158);
  EXPECT_DOUBLE_EQ(makespan(small, costs(1, 1, 1, 2.5)), 91.5);
  EXPECT_DOUBLE_EQ(makespan(large, costs(1, 1, 1, 2.5)), 185.5);
  EXPECT_EQ(peaks(small)[0], 12);
  EXPECT_EQ(peaks(large)[0], 24);
}

TEST(PipelineOracles, Combined) {
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::combined, 4, 8), costs(1, 1, 1, 3)), 33);
  EXPECT_DOUBLE_EQ(makespan(pipeline(Kind::combined, 4, 8), costs(1, 1, 1, 2)), 26);
  EXPECT_THAT(peaks(pipeline(Kind::combined, 4, 8)), ElementsAre(8, 6, 4, 2));
}

TEST(PipelineOracles, Zb1p) {
  EXPECT_DOUBLE_EQ(worst_bubble(pipeline(Kind::zb1p, 4, 8), costs(1, 1, 1)), 3);
  EXPECT_DOUBLE_EQ(worst_bubble(pipeline(Kind::zb1p, 8, 16), costs(1, 1, 1)), 7);
  EXPECT_NEAR(worst_bubble(pipeline(Kind::zb1p, 4, 8), costs(1, 1.2, 0.9)), 3.9, 1e-9);
  EXPECT_NEAR(worst_bubble(pipeline(Kind::zb1p, 8, 16), costs(1, 1.2, 0.9)), 9.1, 1e-9);
  EXPECT_GT(worst_bubble(pipeline(Kind::zb1p, 4, 8), costs(1, 1, 1.5)), 3 * (1 + 2.5 - 3));
  EXPECT_GT(worst_bubble(pipeline(Kind::zb1p, 8, 16), costs(1, 1.2, 1.1)), 7 * (1 + 2.3 - 2.2));
}

struct DualCase {
  PipelineKind kind;
  int stages, microbatches;
  double slow, fast;  // makespans of FB 3 and FB 2
};

TEST(PipelineOracles, DualPipe) {
  for (const DualCase& c : {DualCase{Kind::dualpipe, 4, 8, 26, 22},
                            {Kind::dualpipe, 4, 16, 50, 38},
                            {Kind::dualpipe, 8, 16, 54, 44},
                            {Kind::dualpipe, 8, 20, 66, 52},
                            {Kind::dualpipe, 8, 32, 102, 76},
                            {Kind::dualpipev, 2, 8, 50, 38},
                            {Kind::dualpipev, 4, 16, 102, 76},
                            {Kind::dualpipev, 4, 20, 126, 92}}) {
    const Pipeline p = pipeline(c.kind, c.stages, c.microbatches);
    EXPECT_DOUBLE_EQ(makespan(p, costs(1, 1, 1, 3)), c.slow) << c.stages << " " << c.microbatches;
    EXPECT_DOUBLE_EQ(makespan(p, costs(1, 1, 1, 2)), c.fast) << c.stages << " " << c.microbatches;
  }
  for (const int stages : {4, 8, 16}) {
    const Pipeline p = pipeline(Kind::dualpipe, stages, 3 * stages);
    EXPECT_DOUBLE_EQ(worst_bubble(p, costs(1, 1, 1, 3)), stages - 2);
    EXPECT_DOUBLE_EQ(worst_bubble(p, costs(1, 1, 1, 2)), stages / 2 - 1);
  }
}

TEST(PipelineOracles, DualPipeOutsideTheConditionOfItsFormula) {
  const Pipeline p = pipeline(Kind::dualpipe, 12, 48);
  EXPECT_DOUBLE_EQ(worst_bubble(p, costs(1, 1, 1.5, 2.5)), 5);
  EXPECT_DOUBLE_EQ(worst_bubble(p, costs(1, 2, 1, 4)), 19);
  EXPECT_DOUBLE_EQ(worst_bubble(p, costs(1.5, 1, 1, 3.5)), 15);
}

TEST(PipelineOracles, StepsOfDualPipe) {
  EXPECT_THAT(dualpipe_steps(0, 4, 10), ElementsAre(6, 1, 3, 3, 3, 1, 3, 1));
  EXPECT_THAT(dualpipe_steps(1, 4, 10), ElementsAre(4, 2, 2, 4, 2, 2, 2, 2));
  EXPECT_THAT(dualpipe_steps(2, 4, 10), ElementsAre(2, 3, 1, 5, 1, 3, 1, 3));
  EXPECT_THAT(dualpipe_steps(3, 4, 10), ElementsAre(0, 4, 0, 6, 0, 4, 0, 4));
}

}  // namespace
}  // namespace moesim
