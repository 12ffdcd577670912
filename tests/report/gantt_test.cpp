// SPDX-License-Identifier: Apache-2.0
// Which GPUs and bars are drawn if there are more than can be.
#include <gtest/gtest.h>

#include "sim/report/pictures.h"

namespace moesim {
namespace {

struct GanttPlan {
  void add(int gpu, int layer, double start, double end) {
    plan.add({"fc1",
              OpKey{.kind = OpKind::fc1, .stage = Stage::experts, .layer = layer},
              Stream::compute,
              {GpuId(gpu)},
              {},
              Kernels(HostWork{1})});
    timeline.ops.add_row({{Seconds(start), Seconds(end)}});
    timeline.makespan = std::max(timeline.makespan, Seconds(end));
  }
  Plan plan;
  Timeline timeline;
};

std::vector<GpuId> drawn(const Gantt& gantt) {
  std::vector<GpuId> gpus;
  for (const GanttLane& lane : gantt.lanes) gpus.push_back(lane.gpu);
  return gpus;
}

TEST(Gantt, SixteenOfManyStagesAreSpacedEvenly) {
  GanttPlan of;
  of.plan.gpus = 46;  // 15 x 3 from the first to the last
  for (int gpu = 0; gpu < 46; ++gpu) of.add(gpu, gpu, 0, 1);
  const auto charts = gantts_of(of.plan, of.timeline);
  ASSERT_EQ(charts.size(), 1U);
  std::vector<GpuId> expected;
  for (int gpu = 0; gpu < 46; gpu += 3) expected.push_back(GpuId(gpu));
  EXPECT_EQ(drawn(charts[0]), expected);
  EXPECT_FALSE(charts[0].folded);
}

TEST(Gantt, OfGpusAlikeTheLongestTheShortestAndTheFirstAreShown) {
  GanttPlan of;
  of.plan.gpus = 4;
  for (const int gpu : {0, 1, 2, 3}) of.add(gpu, 0, 0, gpu == 1 ? 9 : gpu == 2 ? 2 : 5);
  EXPECT_EQ(drawn(gantts_of(of.plan, of.timeline)[0]), (std::vector{GpuId(0), GpuId(1), GpuId(2)}));
}

TEST(Gantt, ManyBarsAreFoldedAcrossNarrowGaps) {
  GanttPlan of;
  of.plan.gpus = 1;
  // 4,000 s: a gap of 2 s is narrow, one of 4 s is not. 3,000 bars can be drawn.
  double now = 0;
  for (int i = 0; i < 3001; ++i) {
    of.add(0, 0, now, now + 1);
    now += 1;
    if (i == 1000) now += 2;
    if (i == 2000) now += 4;
  }
  of.timeline.makespan = Seconds(4000);
  const auto charts = gantts_of(of.plan, of.timeline);
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_TRUE(charts[0].folded);
  ASSERT_EQ(charts[0].lanes[0].bars.size(), 2U);
  EXPECT_DOUBLE_EQ(charts[0].lanes[0].bars[0].end.value, 2003);
  EXPECT_DOUBLE_EQ(charts[0].lanes[0].bars[1].start.value, 2007);
  EXPECT_EQ(charts[0].kinds[0].label, "forward");
  // The middle: from the first bar that starts at 2,000 s or later, but 1,200 from the last.
  EXPECT_FALSE(charts[1].folded);
  EXPECT_DOUBLE_EQ(charts[1].from.value, 1803);
  EXPECT_DOUBLE_EQ(charts[1].to.value, 3006);
}

}  // namespace
}  // namespace moesim
