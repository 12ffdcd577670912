// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/requests/request_generator.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;

/// The definition, value by value.
double by_sorting(std::vector<double> values, double percent) {
  std::ranges::sort(values);
  for (const double value : values) {
    const auto not_above = std::ranges::count_if(values, [&](double x) { return x <= value; });
    if (100.0 * static_cast<double>(not_above) >= percent * static_cast<double>(values.size())) {
      return value;
    }
  }
  return 0;
}

ServingRun some_run() {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 2;
  engine.max_sequences = 4;
  engine.kv.capacity = 4096;
  RequestDraw draw;
  draw.count = 137;
  draw.arrivals = {ArrivalLaw::Kind::poisson, 0.5, 1};
  draw.input = {LengthLaw::Kind::uniform, 100, 90};
  draw.output = {LengthLaw::Kind::uniform, 10, 9};
  return run_serving(one_engine(engine, prices), draw_requests(draw));
}

TEST(ServingFigures, AUserGetsATokenPerTimeBetweenThem) {
  FormulaPrices prices([](const ServingBatch&) { return 0.25; });
  const auto output_of = [&](std::int64_t tokens) {
    const ServingRun run = run_serving(one_engine({}, prices), at_once({{5, tokens}}));
    return serving_metrics(run, {}, 0, 1).rates.output_per_user;
  };
  EXPECT_NEAR(output_of(3), 4, 1e-9);
  EXPECT_EQ(output_of(1), 0) << "there is no time between tokens";
}

TEST(ServingFigures, PercentilesAreTheNearestRanks) {
  const ServingRun run = some_run();
  const ServingMetrics metrics = serving_metrics(run, {}, 10, 4);
  std::vector<double> ttft, tpot, latency;
  for (std::size_t i = 10; i < run.requests.size(); ++i) {
    const RequestOutcome& request = run.requests[i];
    ttft.push_back((request.first - request.arrival).value);
    latency.push_back((request.finish - request.arrival).value);
    if (request.output > 1) {
      tpot.push_back((request.finish - request.first).value /
                     static_cast<double>(request.output - 1));
    }
  }
  const auto same = [](const LatencyFigures& figures, const std::vector<double>& values) {
    EXPECT_EQ(figures.count, std::ssize(values));
    EXPECT_EQ(figures.p50, by_sorting(values, 50));
    EXPECT_EQ(figures.p90, by_sorting(values, 90));
    EXPECT_EQ(figures.p95, by_sorting(values, 95));
    EXPECT_EQ(figures.p99, by_sorting(values, 99));
    EXPECT_EQ(figures.most, by_sorting(values, 100));
  };
  same(metrics.ttft, ttft);
  same(metrics.tpot, tpot);
  same(metrics.latency, latency);
  EXPECT_EQ(nearest_rank({{1.0, 999}, {2.0, 1}}, 99.9), 1);
  EXPECT_EQ(nearest_rank({{1.0, 998}, {2.0, 2}}, 99.9), 2);
  EXPECT_EQ(nearest_rank({}, 50), 0);
}

// numpy.percentile([1, 2, 4, 4], [0, 50, 90]) and sorted values at int(4 * p).
TEST(ServingFigures, PercentilesOfBenchmarksAreThoseOfTheirTools) {
  const std::map<double, std::int64_t> counts = {{1, 1}, {2, 1}, {4, 2}};
  const auto at = [&](double percent, PercentileRule rule) {
    return percentile(counts, percent, rule);
  };
  EXPECT_EQ(at(50, PercentileRule::nearest_rank), 2);
  EXPECT_EQ(at(0, PercentileRule::linear), 1);
  EXPECT_EQ(at(50, PercentileRule::linear), 3);
  EXPECT_EQ(at(90, PercentileRule::linear), 4);
  EXPECT_EQ(at(100, PercentileRule::linear), 4);
  EXPECT_NEAR(at(10, PercentileRule::linear), 1.3, 1e-12);
  EXPECT_EQ(at(50, PercentileRule::floor), 4);
  EXPECT_EQ(at(49, PercentileRule::floor), 2);
  EXPECT_EQ(at(100, PercentileRule::floor), 4);
  EXPECT_EQ(percentile({}, 50, PercentileRule::linear), 0);
  EXPECT_EQ(latency_figures(counts).linear.p50, 3);
  EXPECT_EQ(latency_figures(counts).floor.p50, 4);
}

TEST(ServingFigures, GapsAreTheTimesBetweenTokens) {
  FormulaPrices prices = second_per_pass();
  const ServingRun run = run_serving(one_engine({}, prices), at_once({{100, 4}, {10, 2}}));
  // After the first pass one of two tokens, then two of one token.
  std::vector<double> gaps;
  for (const auto& [gap, times] : run.gaps) gaps.insert(gaps.end(), std::size_t(times), gap);
  ASSERT_EQ(gaps.size(), 4U);
  EXPECT_NEAR(gaps[1], 1.001, 1e-9);
  EXPECT_NEAR(gaps[3], 1.002, 1e-9);
  Deployment warm = one_engine({}, prices);
  warm.warmup = 1;
  EXPECT_EQ(serving_metrics(run_serving(warm, at_once({{100, 4}, {10, 2}})), {}, 1, 1).gap.count, 1)
      << "the first request is left out";
}

TEST(ServingFigures, SharesAreOfTokensAndOfBusyTime) {
  ServingRun run;
  run.end = Seconds(10);
  InstanceSummary& instance = run.instances.emplace_back();
  instance.counts.busy = Seconds(4);
  instance.counts.stalled = Seconds(1);
  instance.counts.parts = {Seconds(1), Seconds(2)};
  instance.counts.padding = 5;
  instance.ranks.prompt_tokens = 9;
  instance.ranks.asked_tokens = 12;
  instance.ranks.hit_tokens = 3;
  instance.ranks.decode_tokens = 6;
  const ServingMetrics metrics = serving_metrics(run, {}, 0, 1);
  EXPECT_DOUBLE_EQ(metrics.passes.padding_share, 0.25);
  EXPECT_DOUBLE_EQ(metrics.passes.stall_share, 0.25);
  EXPECT_DOUBLE_EQ(metrics.passes.busy, 0.4);
  EXPECT_DOUBLE_EQ(metrics.passes.part_shares[0], 0.25);
  EXPECT_DOUBLE_EQ(metrics.passes.part_shares[1], 0.5);
  EXPECT_DOUBLE_EQ(metrics.load.cached_share, 0.25);
}

TEST(ServingFigures, OfARunWithoutTokensAreNone) {
  ServingRun run;
  run.end = Seconds(10);
  run.instances.resize(1);
  const ServingMetrics metrics = serving_metrics(run, {}, 0, 1);
  EXPECT_EQ(metrics.time, Seconds(10));
  EXPECT_EQ(metrics.load.cached_share, 0);
  EXPECT_EQ(metrics.passes.padding_share, 0);
  EXPECT_EQ(metrics.passes.busy, 0);
  EXPECT_EQ(metrics.passes.stall_share, 0);
  EXPECT_EQ(metrics.passes.part_shares.front(), 0);
  run.end = Seconds(0);
  EXPECT_EQ(serving_metrics(run, {}, 0, 1).load.waiting_mean, 0);
  EXPECT_EQ(serving_metrics(run, {}, 0, 1).rates.output, 0);
  run.instances[0].ranks.asked_tokens = run.instances[0].ranks.hit_tokens = 1;
  EXPECT_EQ(serving_metrics(run, {}, 0, 1).load.cached_share, 1) << "of a single token";
}

TEST(ServingFigures, OfHalfASecondAreRatesPerSecond) {
  ServingRun run;
  run.end = Seconds(0.5);
  run.requests.push_back({Seconds(0), Seconds(0.25), Seconds(0.5), 6, 1, 1});
  run.instances.resize(1);
  run.instances[0].kv_capacity = 1;
  run.instances[0].kv_tokens_most = 1;
  run.instances[0].counts.busy = Seconds(0.25);
  run.samples = {{Seconds(0), 0, 1, 2, 3}, {Seconds(0.25), 0, 0, 0, 0}};
  const ServingMetrics metrics = serving_metrics(run, {}, 0, 1);
  EXPECT_DOUBLE_EQ(metrics.rates.input, 12);
  EXPECT_DOUBLE_EQ(metrics.rates.output, 2);
  EXPECT_DOUBLE_EQ(metrics.rates.goodput, 2) << "a request in half a second";
  EXPECT_DOUBLE_EQ(metrics.load.kv_mean, 0.5);
  EXPECT_DOUBLE_EQ(metrics.load.kv_most, 1);
  EXPECT_DOUBLE_EQ(metrics.load.waiting_mean, 1);
  EXPECT_DOUBLE_EQ(metrics.load.running_mean, 1.5);
  EXPECT_DOUBLE_EQ(metrics.passes.busy, 0.5);
}

TEST(ServingFigures, PassesOfPromptsByThemselvesAreNotMixed) {
  FormulaPrices prices = second_per_pass();
  const ServingRun run = run_serving(one_engine({}, prices), at_once({{100, 4}}));
  EXPECT_EQ(run.instances[0].counts.passes, 4);
  EXPECT_EQ(run.instances[0].counts.prompt_passes, 1);
  EXPECT_EQ(run.instances[0].counts.mixed_passes, 0);
}

/// Two of three tokens: the first after 2 s, the others after 2 s each; and one of one token.
TEST(ServingFigures, BoundsThatAreMetExactlyAreMet) {
  ServingRun run;
  run.end = Seconds(10);
  for (int i = 0; i < 2; ++i) run.requests.push_back({Seconds(1), Seconds(3), Seconds(7), 5, 3, 3});
  run.requests.push_back({Seconds(1), Seconds(2), Seconds(2), 5, 1, 1});
  const auto good = [&](std::optional<Seconds> ttft, std::optional<Seconds> tpot) {
    ServingSla sla;
    sla.ttft = ttft;
    sla.tpot = tpot;
    return serving_metrics(run, sla, 0, 1).rates.good_share;
  };
  EXPECT_DOUBLE_EQ(good({}, {}), 1);
  EXPECT_DOUBLE_EQ(good(Seconds(2), {}), 1);
  EXPECT_DOUBLE_EQ(good(Seconds(1.9), {}), 1.0 / 3);
  EXPECT_DOUBLE_EQ(good({}, Seconds(2)), 1);
  EXPECT_DOUBLE_EQ(good({}, Seconds(1.9)), 1.0 / 3) << "one token has no time between tokens";
  const ServingMetrics metrics = serving_metrics(run, {}, 0, 1);
  EXPECT_DOUBLE_EQ(metrics.ttft.mean, 5.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.latency.mean, 13.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.tpot.mean, 2);
}

TEST(ServingFigures, RatesAndGoodput) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.max_sequences = 1;
  const ServingRun run = run_serving(one_engine(engine, prices), at_once({{1000, 3}, {1000, 3}}));
  // Prompts take 2 s, later tokens 1.001 s: the second request waits 4.002 s.
  const double end = 2 * 4.002;
  ServingMetrics metrics = serving_metrics(run, {Seconds(2.5), {}}, 0, 4);
  EXPECT_NEAR(metrics.rates.output, 6 / end, 1e-9);
  EXPECT_NEAR(metrics.rates.output_per_gpu, 6 / end / 4, 1e-9);
  EXPECT_NEAR(metrics.rates.input, 2000 / end, 1e-9);
  EXPECT_NEAR(metrics.rates.output_per_user, 1 / 1.001, 1e-9);
  EXPECT_EQ(metrics.rates.good_share, 0.5);
  EXPECT_NEAR(metrics.rates.goodput, 1 / end, 1e-9);
  EXPECT_EQ(serving_metrics(run, {Seconds(9), Seconds(1)}, 0, 4).rates.good_share, 0);
  EXPECT_EQ(serving_metrics(run, {Seconds(2.5), {}}, 1, 4).rates.good_share, 0)
      << "only the second";
  EXPECT_NEAR(metrics.passes.busy, 1, 1e-9);
  EXPECT_EQ(metrics.passes.passes, 6);
}

TEST(ServingFigures, SamplesAreWeighedByTime) {
  ServingRun run;
  run.end = Seconds(10);
  run.instances.resize(1);
  run.instances[0].kv_capacity = 100;
  run.instances[0].kv_tokens_most = 80;
  run.samples = {{Seconds(2), 0, 80, 4, 2}, {Seconds(4), 0, 20, 0, 1}};
  const ServingMetrics metrics = serving_metrics(run, {}, 0, 1);
  EXPECT_NEAR(metrics.load.kv_mean, (2 * 0.8 + 6 * 0.2) / 10, 1e-12);
  EXPECT_NEAR(metrics.load.waiting_mean, 0.8, 1e-12);
  EXPECT_NEAR(metrics.load.running_mean, (2 * 2 + 6 * 1) / 10.0, 1e-12);
  EXPECT_EQ(metrics.load.waiting_most, 4);
  EXPECT_EQ(metrics.load.kv_most, 0.8);
  run.instances[0].rank_count = 2;
  EXPECT_NEAR(serving_metrics(run, {}, 0, 1).load.kv_mean, (2 * 0.4 + 6 * 0.1) / 10, 1e-12)
      << "samples are of both ranks, the capacity of one";
}

TEST(ServingFigures, ThinnedSamplesEndWithTheLast) {
  std::vector<ServingSample> samples(1000);
  for (std::size_t i = 0; i < 1000; ++i) samples[i].time = Seconds(static_cast<double>(i));
  const auto few = thinned(samples, 7);
  ASSERT_EQ(few.size(), 7U);
  EXPECT_EQ(few.back().time, Seconds(999));
  EXPECT_EQ(thinned(samples, 2000).size(), 1000U);
}

}  // namespace
}  // namespace moesim
