// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/expectation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;
using Document = nlohmann::ordered_json;

Document case_of(const std::string& policy, double step, double tokens) {
  return {{"topology", "rail"},        {"policy", policy},
          {"fidelity", "port"},        {"step_s", step},
          {"step_s_each", {step}},     {"breakdown", {{"tokens_s", tokens}}},
          {"total", {{"bytes", 1000}}}};
}

Document result_of(const std::vector<Document>& cases) {
  return {{"format", "moesim-result"}, {"format_version", 2}, {"moesim", "1"}, {"cases", cases}};
}

Expectation against(const Document& before, const Document& after, double tolerance = 0.01) {
  return expect("r.json", before.dump(), after.dump(), tolerance);
}

TEST(Expectation, TheSameHasNotMoved) {
  const Document same = result_of({case_of("a", 1, 0.5), case_of("b", 2, 0.5)});
  const Expectation e = against(same, same, 0);
  EXPECT_EQ(e.moved, 0);
  EXPECT_EQ(e.cases, 2);
  EXPECT_EQ(e.moves.text(), "\n# against r.json: 0 of 2 cases moved by more than 0 %\n");
}

TEST(Expectation, SaysWhatMovedPolicyByPolicy) {
  const Expectation e = against(result_of({case_of("a", 1, 0.5), case_of("b", 2, 0.5)}),
                                result_of({case_of("a", 1, 0.5), case_of("b", 2.5, 0.5)}));
  EXPECT_EQ(e.moved, 1);
  EXPECT_EQ(e.moves.text(),
            "\n# against r.json: 1 of 2 cases moved by more than 1 %\n"
            "case         figure  expected  now    change\n"
            "rail b port  step_s         2  2.5  +25.00 %\n");
}

// 20 ms of tokens become 25 ms: a quarter of them, half a per cent of the step.
TEST(Expectation, HoldsPartsOfAStepToTheStep) {
  const Document before = result_of({case_of("a", 1, 0.020)}),
                 after = result_of({case_of("a", 1, 0.025)});
  EXPECT_EQ(against(before, after, 0.01).moved, 0);
  EXPECT_EQ(against(before, after, 0.004).moved, 1);
}

TEST(Expectation, HoldsOtherFiguresToThemselves) {
  Document after = case_of("a", 1, 0.5);
  after["total"]["bytes"] = 1011;
  EXPECT_THAT(against(result_of({case_of("a", 1, 0.5)}), result_of({after})).moves.text(),
              HasSubstr("total.bytes      1000  1011  +1.10 %"));
  after["total"]["bytes"] = 1009;
  EXPECT_EQ(against(result_of({case_of("a", 1, 0.5)}), result_of({after})).moved, 0);
}

TEST(Expectation, MissesCasesAndNamesNewOnes) {
  Document refused = case_of("b", 1, 1);
  refused["unsuitable"] = "too full";
  const Expectation e = against(result_of({case_of("a", 1, 1), case_of("b", 1, 1)}),
                                result_of({refused, case_of("c", 1, 1)}));
  EXPECT_EQ(e.moved, 3);
  EXPECT_EQ(e.cases, 3);
  for (const char* said : {"missing", "new", "runs"}) EXPECT_THAT(e.moves.text(), HasSubstr(said));
}

TEST(Expectation, SaysWhichInputsDiffer) {
  Document before = result_of({case_of("a", 1, 1)}), after = before;
  before["model"] = "x", after["model"] = "y";
  const Expectation e = against(before, after);
  EXPECT_EQ(e.moved, 0);
  EXPECT_THAT(e.moves.text(), HasSubstr("# inputs that differ: model\n"));
}

TEST(Expectation, SaysEachMoveInALine) {
  Document lost = case_of("lost", 1, 1), refused = case_of("refused", 1, 1), now = refused;
  Document zero = case_of("zero", 1, 1), moved = zero;
  now["unsuitable"] = "too full";
  zero["total"]["bytes"] = 0, zero["speedup"] = 1, zero["old"] = 5, zero["names"] = "x";
  moved["total"]["bytes"] = 7, moved["speedup"] = 2, moved["step_s_each"] = {9};
  const Expectation e = against(result_of({lost, refused, zero}),
                                result_of({now, moved, case_of("added", 1, 1)}), 0.25);
  EXPECT_EQ(e.moved, 4);
  EXPECT_EQ(e.cases, 4);
  EXPECT_EQ(squeezed(e.moves.text()),
            "\n# against r.json: 4 of 4 cases moved by more than 25 %\n"
            "case figure expected now change\n"
            "rail lost port case there missing\n"
            "rail refused port runs yes no\n"
            "rail zero port total.bytes 0 7 -\n"
            "rail added port case not there new\n");
}

TEST(Expectation, AMoveIsBeyondTheTolerance) {
  const Document before = result_of({case_of("a", 4, 2)});
  EXPECT_EQ(against(before, result_of({case_of("a", 4, 3)}), 0.25).moved, 0) << "a quarter of 4 s";
  EXPECT_EQ(against(before, result_of({case_of("a", 4, 3)}), 0.24).moved, 1);
  Document fewer = case_of("a", 4, 2), more = fewer;
  fewer["total"]["bytes"] = 600, more["total"]["bytes"] = -1000;
  EXPECT_EQ(against(before, result_of({fewer}), 0.4).moved, 0);
  EXPECT_EQ(against(before, result_of({fewer}), 0.39).moved, 1);
  EXPECT_EQ(against(before, result_of({more}), 1.9).moved, 1) << "from 1000 to -1000";
}

TEST(Expectation, NamesAllInputsThatDiffer) {
  Document before = result_of({}), after = before;
  for (const char* key : {"trace", "model", "policies", "clusters", "set", "layers", "pass"}) {
    before[key] = 1, after[key] = 2;
  }
  EXPECT_THAT(
      against(before, after).moves.text(),
      HasSubstr("# inputs that differ: trace, model, policies, clusters, set, layers, pass\n"));
  after.erase("trace");
  EXPECT_THAT(against(before, after).moves.text(), HasSubstr("differ: model,"));
}

TEST(Expectation, IsOfTheSameKindOfSteps) {
  Document before = result_of({}), after = before;
  before["step"] = "iteration";
  EXPECT_THROW(against(before, after), Error);
  after["step"] = "iteration";
  EXPECT_EQ(against(before, after).cases, 0);
  Document other = before;
  for (const auto& [key, value] : std::vector<std::pair<std::string, Document>>{
           {"format", "other"}, {"format_version", 3}, {"cases", 5}}) {
    Document wrong = before;
    wrong[key] = value;
    EXPECT_THROW(against(wrong, before), Error) << key;
  }
}

TEST(Expectation, RefusesWhatIsNoResult) {
  const std::string now = result_of({}).dump();
  EXPECT_THROW(expect("r.json", "{}", now, 0), Error);
  EXPECT_THROW(expect("r.json", "no JSON", now, 0), Error);
  EXPECT_THROW(
      expect("r.json", R"({"format": "moesim-iterations", "format_version": 1, "cases": []})", now,
             0),
      Error);
}

}  // namespace
}  // namespace moesim
