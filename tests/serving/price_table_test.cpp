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
  EXPECT_EQ(shape, (BatchShape{18, 1000, 2, 80, 384, 3, 60.0 / 50}));
  const BatchShape made = shape_of(batch_of(shape, {4}, 1), 1);
  EXPECT_EQ(made, (BatchShape{18, 1000, 2, 80, 384, 3, 60.0 * 80 / 3734})) << "60 tokens, 6, 7, 7";
  EXPECT_EQ(batch_of(shape, {4}, 1).ranks[0][0].request, 0);
  EXPECT_EQ(shape_of({{{}, {}}}, 1), (BatchShape{0, 0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(shape_of({{{{10, 1, 1, 0}}, {}}}, 1), (BatchShape{1, 10, 2, 0, 0, 1, 0}));
}

TEST(PriceTables, AtAPointOfTheGridThePriceIsExact) {
  FormulaPrices exact([](const ServingBatch& batch) { return std::sqrt(tokens_in(batch)); });
  PriceTable table(exact, {.check_every = 0});
  EXPECT_EQ(table.price(decode_batch({16, 16}, 1024), {}).time, Seconds(std::sqrt(32.0)));
  EXPECT_EQ(exact.asked.size(), 1U);
  EXPECT_EQ(table.price(decode_batch({16, 16}, 1024), {}).time, Seconds(std::sqrt(32.0)));
  EXPECT_EQ(exact.asked.size(), 1U) << "its price is reused";
}

/// Passes of 100 tokens or more take turns and last half as long.
class HalvedPrices : public StepPrices {
 public:
  StepPrice price(const ServingBatch& batch, const PassKind& kind) override {
    return price_of(batch, kind, splits(batch));
  }
  bool splits(const ServingBatch& batch) const override { return tokens_in(batch) >= 100; }
  StepPrice price_of(const ServingBatch& batch, const PassKind& /*kind*/, bool splits) override {
    return {Seconds((splits ? 0.5 : 1) * tokens_in(batch)), {}};
  }
};

TEST(PriceTables, PassesWhosePartsTakeTurnsAreNotMixedWithOthers) {
  HalvedPrices exact;
  PriceTable table(exact, {.check_every = 0});
  EXPECT_NEAR(table.price(decode_batch({49, 50}, 64), {}).time.value, 99, 0.5)
      << "a point of the grid has 128 tokens";
  EXPECT_NEAR(table.price(decode_batch({50, 50}, 64), {}).time.value, 50, 0.5) << "one has 96";
}

TEST(PriceTables, BetweenPointsSumsOfTheAxesAreExact) {
  FormulaPrices exact([](const ServingBatch& batch) {
    const BatchShape shape = shape_of(batch, 1);
    return 1 + 0.1 * shape[0] + 0.01 * shape[1] + 0.001 * shape[3];
  });
  PriceTable table(exact, {.all_ranks_join = false});
  ServingBatch batch = decode_batch({13, 12}, 777);
  batch.ranks[0].push_back({90, 333, 1, 3});
  EXPECT_NEAR(table.price(batch, {}).time.value, 1 + 2.5 + 7.77 + 0.333, 1e-9);
  EXPECT_LE(table.points(), 8);
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
  const PassErrors& errors = table.errors();
  EXPECT_GE(errors.prompts.checks, 4);
  EXPECT_GE(errors.decodes.checks, 4);
  EXPECT_EQ(errors.all().checks, errors.prompts.checks + errors.decodes.checks);
  EXPECT_LT(errors.worse_mean(), 0.03);
  EXPECT_GE(errors.all().most, errors.all().mean());
}

TEST(PriceTables, ErrorsAreThoseOfTheChecks) {
  // Exact prices rise with every call: the first is of the grid, the second of the check.
  double calls = 0;
  FormulaPrices exact([&](const ServingBatch&) { return ++calls; });
  PriceTableOptions options;
  options.check_every = 1;
  PriceTable table(exact, options);
  table.price(decode_batch({16}, 1024), {});
  EXPECT_EQ(table.errors().all().checks, 1);
  EXPECT_NEAR(table.errors().all().mean(), 0.5, 1e-12);
  EXPECT_NEAR(table.errors().all().of_sum(), -0.5, 1e-12);
  table.price(decode_batch({16}, 1024), {});
  EXPECT_NEAR(table.errors().all().most, 2.0 / 3, 1e-12);
  EXPECT_NEAR(table.errors().all().of_sum(), 2.0 / 5 - 1, 1e-12);
}

TEST(PriceTables, OfEachIntervalThePriceInItsMiddleIsCheckedAndOfTheFirstOneMore) {
  FormulaPrices exact([](const ServingBatch&) { return 1.0; });
  PriceTableOptions options;
  options.check_every = 4;
  PriceTable table(exact, options);
  std::vector<std::int64_t> checks;
  for (int i = 0; i < 8; ++i) {
    table.price(decode_batch({16}, 1024), {});
    checks.push_back(table.errors().all().checks);
  }
  EXPECT_EQ(checks, (std::vector<std::int64_t>{0, 1, 2, 2, 2, 2, 3, 3}));
}

TEST(PriceTables, NothingIsCheckedUnlessAsked) {
  FormulaPrices exact([](const ServingBatch&) { return 1.0; });
  PriceTableOptions options;
  options.check_every = 0;
  PriceTable table(exact, options);
  EXPECT_NEAR(table.price(decode_batch({16}, 1024), {}).time.value, 1, 1e-12);
  EXPECT_EQ(table.errors().all().checks, 0);
}

TEST(PriceTables, PassesWithPromptsAreCheckedByThemselves) {
  FormulaPrices exact([](const ServingBatch&) { return 1.0; });
  PriceTable table(exact, {});
  for (int i = 0; i < 3; ++i) table.price(decode_batch({16}, 1024), {});
  EXPECT_EQ(table.errors().prompts.checks, 0);
  for (int i = 0; i < 3; ++i) table.price({{{{0, 100, 1, 0}}}}, {});
  EXPECT_EQ(table.errors().prompts.checks, 2);
  EXPECT_EQ(table.errors().decodes.checks, 2);
}

/// 18 ranks of 256 sequences lie between two grid values, of which one has more than the largest
/// graph.
TEST(PriceTables, GraphsAndEagerPassesAreNotMixed) {
  FormulaPrices exact([](const ServingBatch&) { return 1.0; });
  PriceTable table(exact, {.check_every = 0});
  const ServingBatch batch = decode_batch(std::vector<std::int64_t>(18, 256), 1000);
  table.price(batch, {});
  EXPECT_EQ(exact.asked_eagerly, 0);
  const auto points = table.points();
  table.price(batch, {.eager = true});
  EXPECT_EQ(table.points(), 2 * points);
  EXPECT_EQ(exact.asked_eagerly, points);
}

/// Attention of 512 prompts of 16 tokens is not that of one of 8,192.
TEST(PriceTables, ManyPromptsStayMany) {
  FormulaPrices exact([](const ServingBatch& batch) {
    double keys = 0;
    for (const auto& steps : batch.ranks) {
      for (const SequenceStep& step : steps) {
        const auto tokens = static_cast<double>(step.tokens);
        keys += static_cast<double>(step.count) * tokens * tokens;
      }
    }
    return 1e-6 * keys;
  });
  PriceTable table(exact, {});
  for (const std::int64_t count : {1, 5, 24}) {
    for (const std::int64_t length : {16, 100, 333, 1600}) {
      const ServingBatch batch{{{{0, length, count, 0}}, {{0, length, count, 0}}}};
      const double right = exact.price(batch, {}).time.value;
      EXPECT_NEAR(table.price(batch, {}).time.value / right, 1, 0.05) << count << " " << length;
    }
  }
}

TEST(BatchShapes, RanksWithoutWorkJoinByOneToken) {
  const BatchShape few{1, 100, 4, 0, 0, 1, 0};
  EXPECT_EQ(batch_of(few, {4, true}, 2).ranks[3], (std::vector<SequenceStep>{{1, 2, 1, -1}}));
  EXPECT_TRUE(batch_of(few, {4, false}, 2).ranks[3].empty());
  const BatchShape prompt{0, 0, 1, 600, 0, 4, 1};
  EXPECT_EQ(batch_of(prompt, {4, true}, 2).ranks[3], (std::vector<SequenceStep>{{1, 1, 1, -1}}));
}

}  // namespace
}  // namespace moesim
