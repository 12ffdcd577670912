// SPDX-License-Identifier: Apache-2.0
// Closed forms of kernels and exchanges that slow each other.
#include "sim/plan/overlap.h"

#include <gtest/gtest.h>

#include "sim/plan/progress.h"

namespace moesim {
namespace {

/// Work of so many ms: the roofline's memory has 1 kB/s.
Kernel work(std::int64_t ms) { return MemoryBound{Bytes(ms), Bytes(0)}; }

GpuModels gpus_with(Overlap overlap, int count = 2) {
  auto gpu = std::make_shared<GpuModel>();
  gpu->memory_bandwidth = BytesPerSecond(1000);
  gpu->overlap = overlap;
  return GpuModels(static_cast<std::size_t>(count), gpu);
}

struct Case {
  Case() { plan.gpus = 2; }
  OpId compute(int gpu, Kernel kernel, std::vector<OpId> after = {}) {
    return plan.add(
        {"k",
         OpKey{.kind = OpKind::other, .pass = Pass::forward, .stage = Stage::other, .layer = 0},
         Lane::compute, std::move(after), Compute{GpuId(gpu), std::move(kernel)}});
  }
  OpId exchange(std::vector<OpId> after = {}, std::int64_t bytes = 1) {
    const std::vector<std::int64_t> entries = {0, bytes, 0, 0};
    return plan.add(
        {"x",
         OpKey{.kind = OpKind::other, .pass = Pass::forward, .stage = Stage::other, .layer = 0},
         Lane::token, std::move(after),
         Exchange{{GpuId(0), GpuId(1)}, ByteMatrix::from_dense(2, entries), {}}});
  }
  /// Every exchange takes so many ms.
  Timeline run(Overlap overlap, double exchange_ms) {
    const GpuModels models = gpus_with(overlap);
    return with_overlap(plan, models, [&](const Delays& delays) {
      ++rounds;
      Progress progress(plan, models, delays);
      for (auto joined = progress.take_joined(); !joined.empty(); joined = progress.take_joined()) {
        for (const auto& one : joined) {
          if (one.all) progress.end(one.op, *one.all + Seconds(exchange_ms * 1e-3));
        }
      }
      return progress.finish();
    });
  }
  double end_ms(const Timeline& timeline, OpId op) {
    return timeline.ops[op.index()].front().end.value * 1e3;
  }
  Plan plan;
  int rounds = 0;
};

TEST(Overlap, WithoutFactorsIsOneRun) {
  Case c;
  c.compute(0, work(10));
  c.exchange();
  EXPECT_NEAR(c.run({}, 100).makespan.value, 0.1, 1e-12);
  EXPECT_EQ(c.rounds, 1);
}

TEST(Overlap, SlowsAKernelInsideAnExchange) {
  Case c;
  const OpId kernel = c.compute(0, work(10));
  const OpId exchange = c.exchange();
  const Timeline timeline = c.run({.compute = 1.5}, 100);
  EXPECT_NEAR(c.end_ms(timeline, kernel), 15, 1e-6);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 100, 1e-6);
}

TEST(Overlap, SlowsTheTimeSharedAlone) {
  Case c;
  const OpId kernel = c.compute(0, work(100));
  const OpId exchange = c.exchange();
  // In the exchange's 30 ms the kernel does 20 of its 100.
  EXPECT_NEAR(c.end_ms(c.run({.compute = 1.5}, 30), kernel), 110, 1e-6);
  EXPECT_NEAR(c.end_ms(c.run({.communication = 2}, 30), exchange), 60, 1e-6);
}

TEST(Overlap, SlowsBoth) {
  Case c;
  const OpId kernel = c.compute(0, work(10));
  const OpId exchange = c.exchange();
  // The kernel lies in the exchange: 20 ms. Of these the exchange does 20 / 4, then 95 alone.
  const Timeline timeline = c.run({.compute = 2, .communication = 4}, 100);
  EXPECT_NEAR(c.end_ms(timeline, kernel), 20, 1e-4);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 115, 1e-4);
}

TEST(Overlap, CountsTheSlowestParticipant) {
  Case c;
  c.compute(0, work(10));
  c.compute(1, work(40));
  const OpId exchange = c.exchange();
  // 40 ms with GPU 1's kernel, in which it does 20.
  EXPECT_NEAR(c.end_ms(c.run({.communication = 2}, 100), exchange), 120, 1e-6);
}

TEST(Overlap, MovesWhatComesAfter) {
  Case c;
  const OpId first = c.compute(0, work(10));
  const OpId second = c.compute(0, work(10));
  const OpId exchange = c.exchange({first});
  // The exchange starts after the first kernel, which nothing slows.
  const Timeline timeline = c.run({.compute = 3}, 100);
  EXPECT_NEAR(c.end_ms(timeline, first), 10, 1e-6);
  EXPECT_NEAR(c.end_ms(timeline, second), 40, 1e-6);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 110, 1e-6);
}

TEST(Overlap, LeavesHostWorkAndEmptyExchangesAlone) {
  Case c;
  const OpId host = c.compute(0, HostWork{10'000'000});
  c.exchange();
  EXPECT_NEAR(c.end_ms(c.run({.compute = 3, .communication = 3}, 50), host), 10, 1e-6);
  Case idle;
  const OpId kernel = idle.compute(0, work(10));
  idle.exchange({}, 0);
  EXPECT_NEAR(idle.end_ms(idle.run({.compute = 3}, 50), kernel), 10, 1e-6);
}

}  // namespace
}  // namespace moesim
