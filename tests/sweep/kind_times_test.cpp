// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/kind_times.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/run/engine_pool.h"
#include "sim/sweep/run_plans.h"

namespace moesim {
namespace {

TEST(SampledRates, AreLinearBetweenSampledNumbersOfSequences) {
  // Two ranks by data; passes of 1, 2 and 4 sequences per rank take 10, 14 and 30 s.
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "a", {}, ""},
                                                  {4, 2, 4, 1, "b", {}, ""}};
  const std::vector<KindTimes> times = {{{5}, 100, ""}, {{10, 14, 30}, 200, ""}};
  SampledRates rates(kinds, times);
  EXPECT_EQ(rates.decode_time(1, 1), 10) << "a rank has one at least";
  EXPECT_EQ(rates.decode_time(1, 2), 10);
  EXPECT_EQ(rates.decode_time(1, 3), 12);
  EXPECT_EQ(rates.decode_time(1, 4), 14);
  EXPECT_EQ(rates.decode_time(1, 5), 18);
  EXPECT_EQ(rates.decode_time(1, 6), 22);
  EXPECT_EQ(rates.decode_time(1, 8), 30);
  EXPECT_EQ(rates.decode_time(1, 100), 30) << "no more are sampled";
  EXPECT_EQ(rates.decode_time(0, 3), 5);
  EXPECT_EQ(rates.prompt_tokens_per_second(1), 200);
}

TEST(Demand, IsTheMeanOfItsRequestsAndAllOrSomeAreInFlight) {
  RequestLog log;
  EXPECT_EQ(demand_of(log, 8).in_flight, 1) << "none at all";
  log.requests = {{Seconds(0), 10, 4}, {Seconds(1), 20, 8}, {Seconds(2), 60, 9}};
  const ServingDemand open = demand_of(log, 8);
  EXPECT_EQ(open.input, 30);
  EXPECT_EQ(open.output, 7);
  EXPECT_EQ(open.in_flight, 3);
  EXPECT_EQ(open.gpus, 8);
  log.concurrency = 1;
  EXPECT_EQ(demand_of(log, 8).in_flight, 1);
}

// A kind of two ranks of one GPU: passes of 1, 2, ... sequences per rank until all in flight fit.
TEST(KindTimes, AreThoseOfItsPasses) {
  const std::string file = MOESIM_ROOT "/scenarios/serving-engine.yaml";
  const std::vector<Override> flags = {{"routing", "balanced", "routing"}};
  const auto kinds = instance_kinds({{"deepep-normal", false}}, 1, 8);
  const auto kind = *std::ranges::find(kinds, 2, &ServingInstanceKind::gpus);
  const KindTimes times = times_of(file, flags, kind, {100, 9, 3, 2}, [] { return false; });
  ASSERT_EQ(times.why, "");
  OpenedPool pool(scenario_of_kind(file, flags, kind));
  ASSERT_EQ(pool.prices().ranks(), 2);
  const auto price = [&](std::vector<SequenceStep> first, std::vector<SequenceStep> second) {
    return pool.prices().exact().price({{std::move(first), std::move(second)}}).time.value;
  };
  ASSERT_EQ(times.decode.size(), 2U);
  EXPECT_DOUBLE_EQ(times.decode[0], price({{104, 1, 1, 0}}, {{104, 1, 1, 1}}));
  EXPECT_DOUBLE_EQ(times.decode[1],
                   price({{104, 1, 1, 0}, {104, 1, 1, 1}}, {{104, 1, 1, 2}, {104, 1, 1, 3}}));
  EXPECT_DOUBLE_EQ(times.prompt_rate, 200 / price({{0, 100, 1, -1}}, {{0, 100, 1, -1}}));
  EXPECT_EQ(times_of(file, flags, kind, {100, 9, 2, 2}, [] { return false; }).decode.size(), 1U);
}

TEST(KindTimes, AreNotOfWhatTheClusterCannotRun) {
  const std::string file = MOESIM_ROOT "/scenarios/serving-engine.yaml";
  const std::vector<Override> flags = {{"routing", "balanced", "routing"}};
  const auto kinds = instance_kinds({{"nvlink-one-sided", false}}, 2, 8);
  const auto kind = *std::ranges::find(kinds, 16, &ServingInstanceKind::gpus);
  EXPECT_EQ(times_of(file, flags, kind, {100, 9, 3, 2}, [] { return false; }).why,
            "one-sided NVLink joins the GPUs of one host, an EP group has 2 hosts");
}

TEST(PricedKinds, KnowWhichPlansRestOnDataSheets) {
  PricedKinds priced;
  priced.times = {{{1}, 1, "", {{"nic"}, {"nvlink"}}}, {{1}, 1, "", {{}, {"nic", "nvlink"}}}};
  EXPECT_EQ(priced.by_data_sheet({0, 0, 1, 0}), "nic");
  EXPECT_EQ(priced.by_data_sheet({1, 1, 1, 0}), "");
  EXPECT_EQ(priced.by_data_sheet({1, 0, 1, 1}), "nic") << "the pool that decodes";
  priced.times.pop_back();
  EXPECT_EQ(priced.by_data_sheet({0, 0, 1, 0}), "") << "no other has better ones";
}

TEST(KindTimes, OfDecodesVerifyTheirDrafts) {
  const std::string file = MOESIM_ROOT "/scenarios/serving-engine.yaml";
  const std::vector<Override> flags = {{"routing", "balanced", "routing"},
                                       {"serving.drafts", "2", "serving.drafts"},
                                       {"serving.accepted", "1", "serving.accepted"}};
  const auto kinds = instance_kinds({{"deepep-normal", false}}, 1, 8);
  const auto kind = *std::ranges::find(kinds, 2, &ServingInstanceKind::gpus);
  const KindTimes times = times_of(file, flags, kind, {100, 9, 2, 2}, [] { return false; });
  ASSERT_EQ(times.why, "");
  OpenedPool pool(scenario_of_kind(file, flags, kind));
  const ServingBatch batch{{{{104, 3, 1, 0}}, {{104, 3, 1, 1}}}};
  ASSERT_EQ(times.decode.size(), 1U);
  EXPECT_DOUBLE_EQ(times.decode[0], pool.prices().exact().price(batch).time.value);
}

}  // namespace
}  // namespace moesim
