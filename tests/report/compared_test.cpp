// SPDX-License-Identifier: Apache-2.0
// One word, one baseline: what cases are compared with, in tables, JSON and reports alike.
#include "sim/report/compared.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/report/table.h"
#include "sim/report/token_costs.h"
#include "tests/report/iteration_case.h"

namespace moesim {
namespace {

using test::iteration_case;
using testing::HasSubstr;

CaseResult not_run(CaseResult c) {
  c.unsuitable = "too full";
  return c;
}

TEST(Compared, SpeedupsAreOverRecordedRoutingOfTheFirstPolicy) {
  const std::vector<CaseResult> cases = {iteration_case("h100", "alltoall", "balanced", 2),
                                         iteration_case("h100", "alltoall", "recorded", 4),
                                         iteration_case("h100", "llep", "recorded", 3)};
  const auto against = compared(cases);
  EXPECT_EQ(against[0].baseline, 1U);
  EXPECT_EQ(against[1].speedup, 1);
  EXPECT_DOUBLE_EQ(against[2].speedup, 4.0 / 3);
  EXPECT_DOUBLE_EQ(*against[1].over_balanced, 1);
  EXPECT_DOUBLE_EQ(*against[2].over_balanced, 0.5) << "over alltoall's balanced run";
  EXPECT_EQ(baseline_notes(cases), "");
}

TEST(Compared, EveryClusterHasItsBaselineWherePoliciesAreCompared) {
  const auto against = compared(std::vector<CaseResult>{
      iteration_case("a", "x", "recorded", 2), iteration_case("a", "y", "recorded", 1),
      iteration_case("b", "x", "recorded", 8), iteration_case("b", "y", "recorded", 2)});
  EXPECT_EQ(against[3].baseline, 2U);
  EXPECT_EQ(against[3].speedup, 4);
}

TEST(Compared, ClustersAreComparedWhereThereIsOnePolicy) {
  const std::vector<CaseResult> cases = {iteration_case("h100-400", "x", "recorded", 13),
                                         iteration_case("gb200-512", "x", "recorded", 5)};
  EXPECT_TRUE(compares_clusters(cases));
  EXPECT_DOUBLE_EQ(compared(cases)[1].speedup, 2.6);
  EXPECT_EQ(baseline_notes(cases), "# speedups are over h100-400\n");
}

TEST(Compared, OneOfSeveralClustersThatRanIsTheirBaseline) {
  const std::vector<CaseResult> cases = {iteration_case("a", "x", "recorded", 2),
                                         not_run(iteration_case("b", "x", "recorded", 2))};
  EXPECT_EQ(baseline_notes(cases), "# speedups are over a\n");
}

TEST(Compared, ClustersOfOtherSizesAreComparedByTokensPerSecond) {
  const std::vector<CaseResult> cases = {iteration_case("a", "x", "recorded", 2, 100),
                                         iteration_case("b", "x", "recorded", 2, 250)};
  EXPECT_DOUBLE_EQ(compared(cases)[1].speedup, 2.5);
  EXPECT_THAT(baseline_notes(cases), HasSubstr("b has 2.5 times the tokens of a"));
}

TEST(Compared, TheNextThatRanIsTheBaselineAndSaidToBe) {
  const std::vector<CaseResult> cases = {not_run(iteration_case("h100", "x", "recorded", 0)),
                                         iteration_case("h100", "y", "recorded", 4),
                                         iteration_case("h100", "z", "recorded", 2)};
  EXPECT_EQ(compared(cases)[2].speedup, 2);
  EXPECT_EQ(baseline_notes(cases), "# speedups on h100 are over y, as x was not run\n");
}

TEST(Compared, TheDocumentSaysTheSame) {
  const std::vector<CaseResult> cases = {iteration_case("h100", "alltoall", "balanced", 2),
                                         iteration_case("h100", "alltoall", "recorded", 4),
                                         not_run(iteration_case("h100", "llep", "recorded", 3))};
  auto objects = nlohmann::ordered_json::array({{{"n", 0}}, {{"n", 1}}, {{"n", 2}}});
  add_compared(objects, cases);
  EXPECT_EQ(objects[0]["speedup"], 2);
  EXPECT_EQ(objects[0]["baseline"],
            (nlohmann::ordered_json{
                {"topology", "h100"}, {"policy", "alltoall"}, {"routing", "recorded"}}));
  EXPECT_EQ(objects[1]["over_balanced"], 1);
  EXPECT_FALSE(objects[2].contains("speedup"));
  EXPECT_THAT(comparison_table(cases).text(), HasSubstr("2.000x"));
}

/// 8 GPUs of 3.6 $/h and 500 W take 2 s for 1,000 tokens: 16 GPU seconds.
TEST(TokenCosts, AreThoseOfAllGpus) {
  const TokenCosts costs = TokenCosts::of({3.6, 500}, 8, 2, 1000);
  EXPECT_DOUBLE_EQ(*costs.dollars_per_million, 16);
  EXPECT_DOUBLE_EQ(*costs.joules, 8);
  EXPECT_FALSE(TokenCosts::of({}, 8, 2, 1000).joules);
}

TEST(TokenCosts, AreInTheTableWhereTheyAreStated) {
  std::vector<CaseResult> cases = {iteration_case("h100", "x", "recorded", 2, 1000)};
  EXPECT_THAT(comparison_table(cases).text(), Not(HasSubstr("$/Mtoken")));
  cases[0].costs = {3.6, 500};
  EXPECT_THAT(comparison_table(cases).text(), HasSubstr("$/Mtoken  J/token"));
  EXPECT_THAT(comparison_table(cases).text(), HasSubstr("16.00    8.000"));
  EXPECT_EQ(case_json(cases[0])["usd_per_million_tokens"], 16);
}

}  // namespace
}  // namespace moesim
