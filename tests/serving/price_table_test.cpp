// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/price_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/requests/request_generator.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;

ServingBatch decode_batch(std::vector<std::int64_t> sequences, std::int64_t context) {
  ServingBatch batch;
  for (const std::int64_t count : sequences) {
    batch.ranks.push_back({});
    if (count > 0) batch.ranks.back().push_back({context, 1, count, 0});
  }
  return batch;
}

TEST(BatchShapes, ABatchOfItsShapeHasItsShape) {
  ServingBatch batch = decode_batch({9, 3, 3, 3}, 1000);
  batch.ranks[0].push_back({512, 60, 1, 7});
  batch.ranks[1].push_back({0, 20, 1, 8});
  const BatchShape shape = shape_of(batch, 1);
  EXPECT_EQ(shape, (BatchShape{18, 1000, 2, 80, 384, 3}));
  EXPECT_EQ(shape_of(batch_of(shape, 4, 1), 1), (BatchShape{18, 1000, 2, 80, 384, 3}));
  EXPECT_EQ(batch_of(shape, 4, 1).ranks[0][0].request, 0);
  EXPECT_EQ(shape_of({{{}, {}}}, 1), (BatchShape{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(shape_of({{{{10, 1, 1, 0}}, {}}}, 1), (BatchShape{1, 10, 2, 0, 0, 1}));
}

TEST(PriceTables, AtAPointOfTheGridThePriceIsExact) {
  FormulaPrices exact([](const ServingBatch& batch) { return std::sqrt(tokens_in(batch)); });
  PriceTable table(exact, {.check_every = 0});
  EXPECT_EQ(table.price(decode_batch({16, 16}, 1024)).time, Seconds(std::sqrt(32.0)));
  EXPECT_EQ(exact.asked.size(), 1U);
  EXPECT_EQ(table.price(decode_batch({16, 16}, 1024)).time, Seconds(std::sqrt(32.0)));
  EXPECT_EQ(exact.asked.size(), 1U) << "its price is reused";
}

TEST(PriceTables, BetweenPointsSumsOfTheAxesAreExact) {
  FormulaPrices exact([](const ServingBatch& batch) {
    const BatchShape shape = shape_of(batch, 1);
    return 1 + 0.1 * shape[0] + 0.01 * shape[1] + 0.001 * shape[3];
  });
  PriceTable table(exact, {});
  ServingBatch batch = decode_batch({13, 12}, 777);
  batch.ranks[0].push_back({90, 333, 1, 3});
  EXPECT_NEAR(table.price(batch).time.value, 1 + 2.5 + 7.77 + 0.333, 1e-9);
  EXPECT_LE(table.points(), 7);
}

/// What a pass costs where ranks wait for the fullest and experts for their weights.
double bent_price(const ServingBatch& batch) {
  double most = 0, all = 0;
  for (const auto& steps : batch.ranks) {
    double own = 0;
    for (const SequenceStep& step : steps) {
      const auto tokens = static_cast<double>(step.tokens * step.count);
      all += tokens;
      own += tokens * (2e-5 + 1e-8 * static_cast<double>(step.context));
    }
    most = std::max(most, own);
  }
  return 5e-3 + most + 1e-2 * (1 - std::pow(1 - 8.0 / 256, all));
}

TEST(PriceTables, ARunWithReusedPricesIsNearTheExactOne) {
  RequestDraw draw;
  draw.count = 600;
  draw.concurrency = 64;
  draw.input = {LengthLaw::Kind::lognormal, 700, 300};
  draw.output = {LengthLaw::Kind::lognormal, 120, 60};
  const RequestLog log = draw_requests(draw);
  EngineOptions engine;
  engine.ranks = 4;
  engine.max_tokens = 2048;
  FormulaPrices exact(bent_price), of_table(bent_price);
  PriceTableOptions options;
  options.per_octave = 4;
  PriceTable table(of_table, options);
  const ServingMetrics right =
      serving_metrics(run_serving(one_engine(engine, exact), log), {}, 0, 4);
  const ServingMetrics near =
      serving_metrics(run_serving(one_engine(engine, table), log), {}, 0, 4);
  EXPECT_NEAR(near.tpot.p50 / right.tpot.p50, 1, 0.02);
  EXPECT_NEAR(near.ttft.p50 / right.ttft.p50, 1, 0.05);
  EXPECT_NEAR(near.rates.output / right.rates.output, 1, 0.02);
  const PriceErrors errors = table.errors();
  EXPECT_GE(errors.checks, 4);
  EXPECT_EQ(errors.checks, (table.asked() + 127) / 256 + 7);
  EXPECT_LT(errors.mean, 0.03);
  EXPECT_GE(errors.most, errors.mean);
}

TEST(PriceTables, ErrorsAreThoseOfTheChecks) {
  // Exact prices rise with every call: the first is of the grid, the second of the check.
  double calls = 0;
  FormulaPrices exact([&](const ServingBatch&) { return ++calls; });
  PriceTableOptions options;
  options.check_every = 1;
  PriceTable table(exact, options);
  table.price(decode_batch({16}, 1024));
  EXPECT_EQ(table.errors().checks, 1);
  EXPECT_NEAR(table.errors().mean, 0.5, 1e-12);
  EXPECT_NEAR(table.errors().sum, -0.5, 1e-12);
  table.price(decode_batch({16}, 1024));
  EXPECT_NEAR(table.errors().most, 2.0 / 3, 1e-12);
  EXPECT_NEAR(table.errors().sum, 2.0 / 5 - 1, 1e-12);
}

TEST(PriceTables, OfEachIntervalThePriceInItsMiddleIsCheckedAndOfTheFirstOneMore) {
  FormulaPrices exact([](const ServingBatch&) { return 1.0; });
  PriceTableOptions options;
  options.check_every = 4;
  PriceTable table(exact, options);
  std::vector<std::int64_t> checks;
  for (int i = 0; i < 8; ++i) {
    table.price(decode_batch({16}, 1024));
    checks.push_back(table.errors().checks);
  }
  EXPECT_EQ(checks, (std::vector<std::int64_t>{0, 1, 2, 2, 2, 2, 3, 3}));
}

TEST(PriceTables, NothingIsCheckedUnlessAsked) {
  FormulaPrices exact([](const ServingBatch&) { return 1.0; });
  PriceTableOptions options;
  options.check_every = 0;
  PriceTable table(exact, options);
  EXPECT_NEAR(table.price(decode_batch({16}, 1024)).time.value, 1, 1e-12);
  EXPECT_EQ(table.errors().checks, 0);
}

}  // namespace
}  // namespace moesim
