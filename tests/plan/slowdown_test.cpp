// SPDX-License-Identifier: Apache-2.0
// Closed forms of kernels and exchanges that slow each other, and their definition on random plans.
#include "sim/plan/simulate/slowdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sim/plan/check.h"
#include "sim/transport/transport.h"
#include "tests/error_of.h"
#include "tests/plan/fixed_network.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

/// Work of so many ms: the roofline's memory has 1 kB/s.
Kernel work(std::int64_t ms) { return MemoryBound{Bytes(ms), Bytes(0)}; }

GpuModels gpus_with(Overlap overlap, int count = 2) {
  auto gpu = std::make_shared<GpuModel>();
  gpu->memory_bandwidth = BytesPerSecond(1000);
  gpu->overlap = overlap;
  gpu->name = "g";
  gpu->sms = 132;
  gpu->peak[DataType::fp8] = FlopsPerSecond(20'000);
  return GpuModels(static_cast<std::size_t>(count), gpu);
}

struct Case {
  OpId compute(int gpu, Kernel kernel, std::vector<OpId> after = {}) {
    return plan.add(
        {"k", {}, Stream::compute, {GpuId(gpu)}, std::move(after), Kernels(std::move(kernel))});
  }
  /// On both GPUs, by itself on each.
  OpId both(Kernel first, Kernel second, std::vector<OpId> after) {
    return plan.add({"k",
                     {},
                     Stream::compute,
                     pair,
                     std::move(after),
                     Kernels(std::vector<Kernel>{std::move(first), std::move(second)})});
  }
  OpId exchange(std::vector<OpId> after = {}, std::int64_t bytes = 1, Stream stream = Stream::ep,
                int sms = 0) {
    const std::vector<std::int64_t> entries = {0, bytes, 0, 0};
    Exchange exchange{ByteMatrix::from_dense(2, entries), {}};
    exchange.sms = sms;
    return plan.add({"x", {}, stream, pair, std::move(after), std::move(exchange)});
  }
  Timeline run(Overlap overlap, double exchange_ms) {
    return test::run_with_fixed_exchanges(plan, gpus_with(overlap), Seconds(exchange_ms * 1e-3));
  }
  static double end_ms(const Timeline& timeline, OpId op) {
    return timeline.ops[op.index()].front().end.value * 1e3;
  }
  Plan plan{"plan", 2, {}};
  Group pair = {GpuId(0), GpuId(1)};  // one list, as planners make them
};

TEST(Slowdown, WithoutFactorsThereIsNone) {
  Case c;
  c.compute(0, work(10));
  c.exchange();
  EXPECT_NEAR(c.run({}, 100).makespan.value, 0.1, 1e-12);
}

TEST(Slowdown, SlowsAKernelInsideAnExchange) {
  Case c;
  const OpId kernel = c.compute(0, work(10));
  const OpId exchange = c.exchange();
  const Timeline timeline = c.run({.compute = 1.5}, 100);
  EXPECT_NEAR(c.end_ms(timeline, kernel), 15, 1e-9);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 100, 1e-9);
}

TEST(Slowdown, SlowsTheTimeSharedAlone) {
  Case c;
  const OpId kernel = c.compute(0, work(100));
  const OpId exchange = c.exchange();
  // In the exchange's 30 ms the kernel does 20 of its 100.
  EXPECT_NEAR(c.end_ms(c.run({.compute = 1.5}, 30), kernel), 110, 1e-9);
  EXPECT_NEAR(c.end_ms(c.run({.communication = 2}, 30), exchange), 60, 1e-9);
}

TEST(Slowdown, SlowsBoth) {
  Case c;
  const OpId kernel = c.compute(0, work(10));
  const OpId exchange = c.exchange();
  // The kernel is in the exchange: 20 ms. Of these the exchange does 20 / 4, then 95 by itself.
  const Timeline timeline = c.run({.compute = 2, .communication = 4}, 100);
  EXPECT_NEAR(c.end_ms(timeline, kernel), 20, 1e-9);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 115, 1e-9);
}

TEST(Slowdown, SlowsBothToTheEndOfTheExchange) {
  Case c;
  const OpId kernel = c.compute(0, work(100));
  const OpId exchange = c.exchange();
  // Both run slowed until the exchange has done its 10 ms, at 40 ms; the kernel has then done 20.
  const Timeline timeline = c.run({.compute = 2, .communication = 4}, 10);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 40, 1e-9);
  EXPECT_NEAR(c.end_ms(timeline, kernel), 120, 1e-9);
}

TEST(Slowdown, CountsTheSlowestParticipant) {
  Case c;
  c.compute(0, work(10));
  c.compute(1, work(40));
  const OpId exchange = c.exchange();
  // 40 ms with GPU 1's kernel, in which it does 20.
  EXPECT_NEAR(c.end_ms(c.run({.communication = 2}, 100), exchange), 120, 1e-9);
}

TEST(Slowdown, MovesWhatComesAfter) {
  Case c;
  const OpId first = c.compute(0, work(10));
  const OpId second = c.compute(0, work(10));
  const OpId exchange = c.exchange({first});
  // The exchange starts after the first kernel, which nothing slows.
  const Timeline timeline = c.run({.compute = 3}, 100);
  EXPECT_NEAR(c.end_ms(timeline, first), 10, 1e-9);
  EXPECT_NEAR(c.end_ms(timeline, second), 40, 1e-9);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 110, 1e-9);
}

TEST(Slowdown, LeavesHostWorkAndEmptyExchangesAlone) {
  Case c;
  const OpId host = c.compute(0, HostWork{10'000'000});
  c.exchange();
  EXPECT_NEAR(c.end_ms(c.run({.compute = 3, .communication = 3}, 50), host), 10, 1e-9);
  Case idle;
  const OpId kernel = idle.compute(0, work(10));
  idle.exchange({}, 0);
  EXPECT_NEAR(idle.end_ms(idle.run({.compute = 3}, 50), kernel), 10, 1e-9);
}

/// 100 s of computing, 30 s of memory traffic.
Kernel product() { return GroupedGemm{{100}, 100, 100, DataType::fp8}; }

TEST(Slowdown, ExchangesTakeMultiprocessorsFromWhatComputes) {
  Case c;
  const OpId computes = c.compute(0, product());
  const OpId moves = c.compute(1, work(100'000));
  const OpId exchange = c.exchange({}, 1, Stream::ep, 33);
  const Timeline inside = c.run({}, 1e6);
  EXPECT_NEAR(c.end_ms(inside, computes), 100'000 * 132.0 / 99, 1e-6);
  EXPECT_NEAR(c.end_ms(inside, moves), 100'000, 1e-6);
  EXPECT_NEAR(c.end_ms(inside, exchange), 1e6, 1e-6);
  // In the exchange's 40 s it does 30.
  EXPECT_NEAR(c.end_ms(c.run({}, 40'000), computes), 110'000, 1e-6);
}

TEST(Slowdown, ExchangesThatTakeNoneCostNothing) {
  Case c;
  const OpId kernel = c.compute(0, product());
  c.exchange();
  c.exchange({kernel}, 1, Stream::param, 33);
  EXPECT_NEAR(c.end_ms(c.run({}, 40'000), kernel), 100'000, 1e-6);
}

TEST(Slowdown, MultiprocessorsTakenAddUp) {
  Case c;
  const OpId kernel = c.compute(0, product());
  c.exchange({}, 1, Stream::ep, 33);
  c.exchange({}, 1, Stream::param, 33);
  // In 40 s it does 20.
  EXPECT_NEAR(c.end_ms(c.run({}, 40'000), kernel), 120'000, 1e-6);
  c.exchange({}, 1, Stream::dp, 100);  // one is left of 132: in 40 s it does 40 / 132
  EXPECT_NEAR(c.end_ms(c.run({}, 40'000), kernel), 140'000 - 40'000.0 / 132, 1e-6);
}

TEST(Slowdown, MultiprocessorsTakenMultiplyAnOverlap) {
  Case c;
  const OpId computes = c.compute(0, product());
  const OpId moves = c.compute(1, work(100'000));
  const OpId exchange = c.exchange({}, 1, Stream::ep, 33);
  // Half as fast, and two thirds as fast; the exchange is slowed by both GPUs to the end.
  const Timeline timeline = c.run({.compute = 1.5, .communication = 2}, 20'000);
  EXPECT_NEAR(c.end_ms(timeline, exchange), 40'000, 1e-6);
  EXPECT_NEAR(c.end_ms(timeline, computes), 120'000, 1e-6);
  EXPECT_NEAR(c.end_ms(timeline, moves), 100'000 + 40'000 / 3.0, 1e-6);
}

TransportPtr transport_with(int sms, bool fused) {
  Transport transport;
  transport.sms = sms;
  transport.fused = fused;
  return std::make_shared<const Transport>(transport);
}

// Two hops of a dispatch that overlap are one kernel, which has its multiprocessors once; with
// those of another dispatch they add up.
TEST(Slowdown, PhasesOfOneKernelShareItsMultiprocessors) {
  const auto end_of = [](bool fused, int second_layer) {
    Case c;
    c.plan.transports.tokens = transport_with(0, fused);
    const OpId kernel = c.compute(0, product());
    for (int phase = 0; phase < 2; ++phase) {
      const OpId hop = c.exchange({}, 1, phase == 0 ? Stream::ep : Stream::ep_2, 33);
      OpKey& key = c.plan.ops[hop.index()].key;
      key.kind = OpKind::token_exchange;
      key.layer = phase == 0 ? 0 : second_layer;
      key.part = phase;
    }
    return c.end_ms(c.run({}, 40'000), kernel);
  };
  EXPECT_NEAR(end_of(true, 0), 110'000, 1e-6);
  EXPECT_NEAR(end_of(true, 1), 120'000, 1e-6);
  EXPECT_NEAR(end_of(false, 0), 120'000, 1e-6);
}

// The multiprocessors are held until the last phase has ended: the second one takes 40 s more.
TEST(Slowdown, AFusedKernelHoldsItsMultiprocessorsToItsEnd) {
  Case c;
  c.plan.transports.tokens = transport_with(0, true);
  const OpId kernel = c.compute(0, product());
  for (int phase = 0; phase < 2; ++phase) {
    const OpId hop = c.exchange({}, 1, Stream::ep, 33);  // one after the other
    OpKey& key = c.plan.ops[hop.index()].key;
    key.kind = OpKind::token_exchange;
    key.part = phase;
  }
  EXPECT_NEAR(c.end_ms(c.run({}, 40'000), kernel), 120'000, 1e-6);
}

TEST(Slowdown, RingsTakeTheMultiprocessorsOfTheirTransport) {
  const auto end_of = [](Stream stream) {
    Case c;
    c.plan.transports.others = transport_with(33, false);
    const OpId kernel = c.compute(0, product());
    c.exchange({}, 1, stream);
    return c.end_ms(c.run({}, 40'000), kernel);
  };
  for (const Stream ring : {Stream::dp, Stream::param, Stream::tp, Stream::cp}) {
    EXPECT_NEAR(end_of(ring), 110'000, 1e-6) << name_of(ring);
  }
  for (const Stream other : {Stream::ep, Stream::pp_down}) {
    EXPECT_NEAR(end_of(other), 100'000, 1e-6) << name_of(other);
  }
  Case c;
  c.plan.transports.others = transport_with(132, false);
  c.exchange({}, 1, Stream::dp);
  EXPECT_EQ(error_of([&] { c.run({}, 1); }),
            "error: op 0 'x' takes 132 multiprocessors, but GPU model 'g' has 132\n");
}

TEST(Slowdown, RefusesExchangesThatTakeMoreMultiprocessorsThanThereAre) {
  Case c;
  c.exchange({}, 1, Stream::ep);  // takes none
  c.exchange({}, 1, Stream::ep, 132);
  EXPECT_EQ(error_of([&] { c.run({}, 1); }),
            "error: op 1 'x' takes 132 multiprocessors, but GPU model 'g' has 132\n");
  GpuModel unstated;
  unstated.name = "g";
  const GpuModels gpus(2, std::make_shared<GpuModel>(unstated));
  EXPECT_EQ(
      error_of([&] { slows(c.plan, gpus); }),
      "error: op 1 'x' takes 132 multiprocessors, but GPU model 'g' does not say how many it has\n"
      "hint: add 'sms' to it\n");
}

TEST(Slowdown, GpusWhoseExchangesTakeNoneNeedNotSayHowManyTheyHave) {
  GpuModel stated, unstated;
  stated.sms = 2;
  const GpuModels gpus = {std::make_shared<GpuModel>(stated), std::make_shared<GpuModel>(stated),
                          std::make_shared<GpuModel>(unstated)};
  Case c;
  c.plan.gpus = 3;
  const OpId all = c.exchange();
  c.plan.ops[all.index()].group = {GpuId(1), GpuId(2)};
  EXPECT_FALSE(slows(c.plan, gpus));
  c.exchange({}, 1, Stream::ep, 1);
  EXPECT_TRUE(slows(c.plan, gpus));
}

/// Equal but for rounding.
void expect_near(const Timeline& one, const Timeline& other) {
  for (std::size_t op = 0; op < one.ops.size(); ++op) {
    for (std::size_t i = 0; i < one.ops[op].size(); ++i) {
      EXPECT_NEAR(one.ops[op][i].start.value, other.ops[op][i].start.value, 1e-12);
      EXPECT_NEAR(one.ops[op][i].end.value, other.ops[op][i].end.value, 1e-12);
    }
  }
}

// Phases of 20 s take half of the multiprocessors: a kernel of 100 s takes twice that, and slows
// them by 1.5. The seventh begins at 180 s, has 20 s of that, and then 20 / 3 by itself.
TEST(Slowdown, PhasesThatFollowEachOtherAreCarriedTogetherAsOneByOne) {
  Case c;
  c.plan.transports.tokens = transport_with(0, true);
  const OpId kernel = c.compute(0, product());
  std::vector<OpId> phases;
  for (int part = 0; part < 8; ++part) {
    phases.push_back(c.exchange({}, 1, Stream::ep, 66));
    OpKey& key = c.plan.ops[phases.back().index()].key;
    key.kind = OpKind::token_exchange;
    key.part = part;
  }
  const GpuModels gpus = gpus_with({.compute = 1, .communication = 1.5});
  const Timeline one_by_one = test::run_with_fixed_exchanges(c.plan, gpus, Seconds(20));
  const Timeline together = test::run_with_fixed_exchanges(c.plan, gpus, Seconds(20), true);
  expect_near(together, one_by_one);
  EXPECT_NEAR(c.end_ms(together, kernel), 200'000, 1e-6);
  EXPECT_NEAR(c.end_ms(together, phases[5]), 180'000, 1e-6);
  EXPECT_NEAR(c.end_ms(together, phases[6]), 200'000 + 20'000 / 3.0, 1e-6);
  EXPECT_NEAR(c.end_ms(together, phases[7]), 220'000 + 20'000 / 3.0, 1e-6);
}

/// What is left of an interval where the others of the list cover it only with 1 / factor.
double done_in(const Interval& own, const std::vector<Interval>& others, double factor) {
  std::vector<double> cuts = {own.start.value, own.end.value};
  for (const Interval& other : others) {
    cuts.push_back(std::clamp(other.start.value, own.start.value, own.end.value));
    cuts.push_back(std::clamp(other.end.value, own.start.value, own.end.value));
  }
  std::ranges::sort(cuts);
  double done = 0;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    const double middle = (cuts[i - 1] + cuts[i]) / 2;
    const bool slow = std::ranges::any_of(others, [&](const Interval& other) {
      return other.start.value < middle && middle < other.end.value;
    });
    done += (cuts[i] - cuts[i - 1]) / (slow ? factor : 1);
  }
  return done;
}

/// Whether every op of a timeline has done its work by the definition: a kernel what it takes by
/// itself, an exchange for its slowest participant what the network takes.
void expect_work_done(const Plan& plan, const Timeline& timeline, Overlap overlap, double kernel_s,
                      double exchange_s) {
  std::vector<std::vector<Interval>> kernels(2), exchanges(2);
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    const Group& gpus = plan.ops[op].group;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      (plan.ops[op].kernels() ? kernels : exchanges)[gpus[i].index()].push_back(
          timeline.ops[op][i]);
    }
  }
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    const auto& intervals = timeline.ops[op];
    if (const Kernels* of_group = plan.ops[op].kernels()) {
      for (std::size_t i = 0; i < intervals.size(); ++i) {
        const double work_s =
            kernel_s * static_cast<double>(std::get<MemoryBound>(of_group->of(i)).read.value);
        const std::size_t gpu = plan.ops[op].group[i].index();
        EXPECT_NEAR(done_in(intervals[i], exchanges[gpu], overlap.compute), work_s, 1e-9);
      }
      continue;
    }
    const Seconds start = std::max(intervals[0].start, intervals[1].start);
    const Interval own{start, intervals[0].end};
    EXPECT_NEAR(std::min(done_in(own, kernels[0], overlap.communication),
                         done_in(own, kernels[1], overlap.communication)),
                exchange_s, 1e-9);
  }
}

TEST(Slowdown, FulfilsItsDefinitionOnRandomPlans) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  for (int round = 0; round < 200; ++round) {
    Case c;
    for (int i = 0; i < 30; ++i) {
      std::vector<OpId> after;
      if (i > 0 && below(2) == 0) {
        const OpId earlier(below(i));
        const Group& group = c.plan[earlier].group;
        const int gpu = group.size() == 1 ? group.front().value : below(2);
        after.push_back(earlier);
        if (below(3) > 0) {
          c.compute(gpu, work(1 + below(20)), after);
          continue;
        }
      }
      if (below(6) == 0) {
        c.both(work(1 + below(20)), work(1 + below(20)), after);
      } else if (below(3) > 0) {
        c.compute(below(2), work(1 + below(20)));
      } else {
        c.exchange(after, 1, below(2) == 0 ? Stream::ep : Stream::param);
      }
    }
    const Overlap overlap{1 + 0.25 * below(6), 1 + 0.5 * below(6)};
    const Timeline timeline = c.run(overlap, 15);
    expect_work_done(c.plan, timeline, overlap, 1e-3, 15e-3);
    expect_near(test::run_with_fixed_exchanges(c.plan, gpus_with(overlap), Seconds(15e-3), true),
                timeline);
  }
}

}  // namespace
}  // namespace moesim
