// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/sla.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Slas, AreBoundsByCommas) {
  EXPECT_THAT(parse_sla("ttft p95 < 2 s, tpot mean < 50ms"),
              ElementsAre(SlaBound{SlaBound::Metric::ttft, SlaBound::Figure::p95, Seconds(2)},
                          SlaBound{SlaBound::Metric::tpot, SlaBound::Figure::mean, Seconds(0.05)}));
}

std::string mistake_in(const std::string& text) {
  return error_of([&] { parse_sla(text); });
}

TEST(Slas, SayWhatIsWrong) {
  EXPECT_THAT(mistake_in("tftt p95 < 2 s"), HasSubstr("'tftt' is none of ttft, tpot"));
  EXPECT_THAT(mistake_in("ttft p96 < 2 s"), HasSubstr("'p96' is none of mean, p50"));
  EXPECT_THAT(mistake_in("ttft p95 > 2 s"), HasSubstr("not a bound"));
  EXPECT_THAT(mistake_in("ttft p95 < 2 GB"), HasSubstr("not a bound"));
  EXPECT_THAT(mistake_in("ttft p95 < 2 s and tpot p95 < 50 ms"), HasSubstr("not a bound"));
  EXPECT_THAT(mistake_in(""), HasSubstr("empty"));
}

TEST(Slas, OfRequestsAreThoseOfTheirOwnTimes) {
  SlaBound first, next;
  first.metric = SlaBound::Metric::ttft;
  first.most = Seconds(3);
  next.metric = SlaBound::Metric::tpot;
  next.most = Seconds(4);
  EXPECT_EQ(sla_of_requests({first}).ttft, Seconds(3));
  EXPECT_FALSE(sla_of_requests({first}).tpot);
  EXPECT_EQ(sla_of_requests({next}).tpot, Seconds(4));
  EXPECT_FALSE(sla_of_requests({next}).ttft);
}

TEST(Slas, AreBrokenAtTheBound) {
  ServingMetrics metrics;
  metrics.ttft.p95 = 2;
  const SlaBound bound{SlaBound::Metric::ttft, SlaBound::Figure::p95, Seconds(2)};
  EXPECT_EQ(broken_by(metrics, bound), "TTFT p95 is 2 s, not below 2 s");
  metrics.ttft.p95 = 1.999;
  EXPECT_FALSE(broken_by(metrics, bound));
}

}  // namespace
}  // namespace moesim
