// SPDX-License-Identifier: Apache-2.0
// The parts of a hand-made step, which add up to it.
#include <gtest/gtest.h>

#include <array>

#include "sim/report/metrics.h"

namespace moesim {
namespace {

/// Ops of two GPUs with the times at which they ran.
class BreakdownTest : public testing::Test {
 protected:
  void compute(int gpu, double start, double end) {
    plan_.add(
        {"fc1",
         OpKey{.kind = OpKind::fc1, .pass = Pass::forward, .stage = Stage::experts, .layer = 0},
         Stream::compute,
         {GpuId(gpu)},
         {},
         Kernels(MemoryBound{Bytes(1), Bytes(1)})});
    timeline_.ops.add_row({{Seconds(start), Seconds(end)}});
  }
  /// GPU g joins at starts[g]; both leave at `end`.
  void exchange(Stream stream, Stage stage, std::array<double, 2> starts, double end) {
    const std::int64_t dense[] = {0, 1, 0, 0};
    plan_.add({"x",
               OpKey{.kind = OpKind::other, .pass = Pass::forward, .stage = stage, .layer = 0},
               stream,
               {GpuId(0), GpuId(1)},
               {},
               Exchange{ByteMatrix::from_dense(2, dense), {}, false}});
    timeline_.ops.add_row({{Seconds(starts[0]), Seconds(end)}, {Seconds(starts[1]), Seconds(end)}});
  }
  Breakdown of(double makespan) {
    plan_.gpus = 2;
    timeline_.makespan = Seconds(makespan);
    const Breakdown b = step_breakdown(plan_, timeline_);
    EXPECT_DOUBLE_EQ((b.compute + b.tokens + b.weights + b.gradients + b.waiting + b.idle).value,
                     makespan);
    return b;
  }
  Plan plan_;
  Timeline timeline_;
};

TEST_F(BreakdownTest, WhoComesEarlyWaitsForTheSlowest) {
  compute(0, 0, 2);
  compute(1, 0, 6);
  exchange(Stream::ep, Stage::dispatch, {2, 6}, 9);
  const Breakdown b = of(10);
  EXPECT_DOUBLE_EQ(b.compute.value, 4);
  EXPECT_DOUBLE_EQ(b.slowest_compute.value, 6);
  EXPECT_DOUBLE_EQ(b.waiting.value, 2);  // 4 on GPU 0
  EXPECT_DOUBLE_EQ(b.tokens.value, 3);
  EXPECT_DOUBLE_EQ(b.idle.value, 1);
  EXPECT_DOUBLE_EQ(b.overlapped.value, 0);
  EXPECT_STREQ(binding_part(b).what, "compute");
  EXPECT_EQ(binding_part(b).time, b.compute);
}

TEST_F(BreakdownTest, ExchangesBesideEachOtherCountOnce) {
  exchange(Stream::ep, Stage::dispatch, {0, 0}, 4);
  exchange(Stream::param, Stage::gather, {2, 2}, 6);
  exchange(Stream::dp, Stage::reduce, {1, 1}, 9);
  const Breakdown b = of(9);
  EXPECT_DOUBLE_EQ(b.tokens.value, 4);
  EXPECT_DOUBLE_EQ(b.weights.value, 2);
  EXPECT_DOUBLE_EQ(b.gradients.value, 3);
  EXPECT_STREQ(binding_part(b).what, "tokens");
}

TEST_F(BreakdownTest, WhatComputeHidesIsOverlapped) {
  compute(0, 0, 8);
  compute(1, 0, 8);
  exchange(Stream::dp, Stage::reduce, {2, 2}, 9);
  const Breakdown b = of(9);
  EXPECT_DOUBLE_EQ(b.overlapped.value, 6);
  EXPECT_DOUBLE_EQ(b.gradients.value, 1);
}

TEST_F(BreakdownTest, WhatIsWhollyHiddenIsExactlyNothing) {
  // Lengths that do not add up: (0.1 - 0) + (0.2 - 0.1) + (0.9 - 0.2) < 0.9 - 0.
  for (const int gpu : {0, 1}) {
    compute(gpu, 0, 0.1);
    compute(gpu, 0.1, 0.2);
    compute(gpu, 0.2, 0.9);
  }
  exchange(Stream::dp, Stage::reduce, {0, 0}, 0.9);
  const Breakdown b = of(0.9);
  for (const Seconds part : {b.tokens, b.weights, b.gradients, b.waiting, b.idle}) {
    EXPECT_EQ(part.value, 0);
  }
}

TEST_F(BreakdownTest, NothingBindsAnEmptyStep) { EXPECT_STREQ(binding_part(of(0)).what, ""); }

}  // namespace
}  // namespace moesim
