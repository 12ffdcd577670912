// SPDX-License-Identifier: Apache-2.0
// Times per op kind of hand-made timelines, and what a comparison concludes from round numbers.
#include "sim/evidence/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/engine/fixtures.h"
#include "tests/error_of.h"

namespace moesim::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Interval seconds(double start, double end) { return {Seconds(start), Seconds(end)}; }

TEST(OpTimes, CountsAnExchangeFromTheLastJoiningToTheLastEnd) {
  PlanWriter w(4);
  w.compute(0, Seconds(1));
  w.compute(1, Seconds(1));
  w.exchange({0, 1}, {{0, 1, 8}});
  Timeline timeline;
  timeline.ops = {{seconds(0, 1)}, {seconds(0, 5)}, {seconds(1, 6), seconds(5, 8)}};
  const OpTimes times = op_times(w.plan(), timeline);
  EXPECT_EQ((times.kinds.at({"compute", Stage::other, Stream::compute})), Seconds((1 + 5) / 4.0));
  EXPECT_EQ((times.kinds.at({"exchange", Stage::other, Stream::ep})), Seconds(2 * (8 - 5) / 4.0));
  EXPECT_EQ(times.waiting, Seconds((5 - 1) / 4.0));
}

TEST(OpTimes, WaitsNoLongerThanItsOwnExchangeLasts) {
  PlanWriter w(2);
  w.exchange({0, 1}, {{0, 1, 8}});
  Timeline timeline;
  timeline.ops = {{seconds(1, 2), seconds(5, 6)}};  // on hardware, GPU 0 needs nothing of GPU 1
  const OpTimes times = op_times(w.plan(), timeline);
  EXPECT_EQ(times.waiting, Seconds(1 / 2.0));
  EXPECT_EQ(times.kinds.begin()->second, Seconds(1));
}

TEST(OpTimes, KeepsStagesAndStreamsApart) {
  PlanWriter w(1);
  w.compute(0, Seconds(1));
  w.compute(0, Seconds(1), {}, Stream::copy);
  Timeline timeline;
  timeline.ops = {{seconds(0, 1)}, {seconds(0, 2)}};
  EXPECT_EQ(op_times(w.plan(), timeline).kinds.size(), 2u);
}

struct Times {
  std::string policy;
  std::vector<double> repeats;
  double simulated;
  std::int64_t wrong = 0;
};

/// One step of each policy.
ResultValidation validated(const std::vector<Times>& all) {
  HardwareResult measured;
  measured.file = "m.json";
  std::vector<SimulatedCase> simulated;
  for (const Times& times : all) {
    HardwareStep step;
    step.plan = "plan of " + times.policy;
    for (const double repeat : times.repeats) step.repeats.emplace_back(repeat);
    measured.cases.push_back({times.policy, "", times.wrong, {step}});
    simulated.push_back({{step.plan}, {Seconds(times.simulated)}, {}});
  }
  return validate(measured, simulated);
}

Validation validation_of(const std::vector<Times>& all, double tolerance = 0.12) {
  return {{validated(all)}, tolerance};
}

TEST(Validation, FindsNothingWhereBothAgree) {
  const Validation v = validation_of({{"a", {1}, 1}, {"b", {2}, 2}});
  EXPECT_EQ(v.mean_error(), 0);
  EXPECT_THAT(v.objections(), IsEmpty());
  EXPECT_THAT(validation_text(v, "x").text(), ::testing::EndsWith("\nvalid\n"));
  const std::string document = validation_json(v, "x");
  EXPECT_TRUE(nlohmann::json::parse(document)["valid"].get<bool>());
  EXPECT_THAT(document, ::testing::StartsWith(
                            "{\n \"format\": \"moesim-validation\",\n \"format_version\": 1,\n"));
}

TEST(Validation, TakesTheMeanOfAbsoluteErrorsOfAllResults) {
  Validation v = validation_of({{"a", {1}, 1.1}, {"b", {2}, 1.6}});
  v.results.push_back(validated({{"a", {1}, 1.3}}));
  EXPECT_NEAR(v.mean_error(), (0.1 + 0.2 + 0.3) / 3, 1e-12);
}

TEST(Validation, ObjectsBeyondTheTolerance) {
  EXPECT_THAT(validation_of({{"a", {100}, 113}}).objections(),
              ElementsAre(HasSubstr("13.0 %, beyond 12.0 %")));
  EXPECT_THAT(validation_of({{"a", {100}, 87}}).objections(), ElementsAre(HasSubstr("13.0 %")));
  EXPECT_THAT(validation_of({{"a", {100}, 111}}).objections(), IsEmpty());
  EXPECT_THAT(validation_of({{"a", {100}, 113}}, 0.14).objections(), IsEmpty());
}

TEST(Validation, ObjectsToAWrongOrderOfPoliciesThatDifferByMoreThanTenPercent) {
  const Validation v = validation_of({{"slow", {1.11}, 1}, {"fast", {1}, 1.05}});
  EXPECT_THAT(v.results[0].misordered, ElementsAre(PolicyPair{"fast", "slow"}));
  EXPECT_THAT(v.objections(), ElementsAre("1 pair ordered wrongly"));
  EXPECT_THAT(validation_text(v, "x").text(),
              HasSubstr("  fast is faster than slow, but not simulated"));
  EXPECT_THAT(validation_of({{"slow", {1.09}, 1}, {"fast", {1}, 1.05}}).objections(), IsEmpty());
}

TEST(Validation, CountsATieAsWronglyOrdered) {
  EXPECT_EQ(validation_of({{"slow", {1.11}, 1.05}, {"fast", {1}, 1.05}}).misordered(), 1);
}

TEST(Validation, ObjectsToTimesOfWrongNumbers) {
  EXPECT_THAT(validation_of({{"a", {1}, 1, 3}}).objections(),
              ElementsAre(HasSubstr("3 wrong elements")));
}

TEST(Validation, TakesMediansAndTellsTheSpread) {
  const Validation v = validation_of({{"a", {5, 1, 2}, 2}});
  const PolicyValidation& p = v.results[0].policies[0];
  EXPECT_EQ(p.measured, Seconds(2));
  EXPECT_EQ(p.spread, (5 - 1) / 2.0);
  EXPECT_THAT(validation_text(v, "x").text(),
              HasSubstr("the repeats of 1 of 1 case spread by more"));
}

TEST(Validation, NumbersThePlacesOnBothSides) {
  const auto result = validated({{"c", {3}, 1}, {"a", {1}, 2}, {"b", {2}, 3}});
  std::vector<std::pair<int, int>> places;
  for (const auto& p : result.policies) places.emplace_back(p.measured_place, p.simulated_place);
  EXPECT_THAT(places, ElementsAre(std::pair(1, 2), std::pair(2, 3), std::pair(3, 1)));
  EXPECT_EQ(result.pairs, 3);
}

TEST(Validation, ShowsBothTimesOfAnOpAndThoseOfOneSideOnly) {
  Validation v = validation_of({{"a", {1}, 1}});
  PolicyValidation& p = v.results[0].policies[0];
  p.measured_ops.kinds[{"fc1", Stage::experts, Stream::compute}] = Seconds(0.5);
  p.simulated_ops.kinds[{"fc1", Stage::experts, Stream::compute}] = Seconds(0.4);
  p.simulated_ops.kinds[{"fc2", Stage::experts, Stream::compute}] = Seconds(0.1);
  const std::string text = validation_text(v, "x").text();
  EXPECT_THAT(
      text, ::testing::ContainsRegex("a +fc1 +experts +compute +500 ms +400 ms +-20.0 % +50.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("a +fc2 +experts +compute +- +100 ms +- +0.0 %\n"));
}

TEST(Validation, RefusesOtherPlans) {
  HardwareResult measured;
  measured.file = "m.json";
  measured.cases = {{"a", "", 0, {{"one", {Seconds(1)}, {}}, {"two", {Seconds(1)}, {}}}}};
  const auto refused = [&](const std::vector<std::string>& plans) {
    return error_of([&] {
      validate(measured, {{plans, std::vector<Seconds>(plans.size(), Seconds(1)), {}}});
    });
  };
  EXPECT_EQ(refused({"one", "two"}), "");
  EXPECT_THAT(refused({"one", "three"}), HasSubstr("m.json: error: a: the plan of step 1 is not"));
  EXPECT_THAT(refused({"three", "two"}), HasSubstr("m.json: error: a: the plan of step 0 is not"));
  EXPECT_THAT(refused({"one"}), HasSubstr("a: 2 steps were measured, the scenario has 1"));
}

TEST(Validation, LeavesOutWhatCouldNotRun) {
  HardwareResult measured;
  measured.cases = {{"a", "too few GPUs\n", 0, {}}};
  EXPECT_THROW(validate(measured, {}), Error);
  measured.cases.push_back({"b", "", 0, {{"one", {Seconds(1)}, {}}}});
  const Validation v{{validate(measured, {{{"one"}, {Seconds(1)}, {}}})}, 0.12};
  EXPECT_EQ(v.results[0].policies.size(), 1u);
  EXPECT_THAT(validation_text(v, "x").text(), HasSubstr("a: not run: too few GPUs\n"));
}

TEST(HashOfPlan, KnowsOpsAndBytesButNoRows) {
  const auto plan = [](std::int64_t bytes, bool rows) {
    PlanWriter w(2);
    w.exchange({0, 1}, {{0, 1, bytes}});
    Plan p = w.plan();
    if (rows) std::get<Exchange>(p.ops[0].work).rows = {{GpuId(0), GpuId(1), TokenId(0), 1}};
    return hash_of_plan(p);
  };
  EXPECT_EQ(plan(8, false), plan(8, true));
  EXPECT_NE(plan(8, false), plan(9, false));
}

}  // namespace
}  // namespace moesim::test
