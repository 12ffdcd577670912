// SPDX-License-Identifier: Apache-2.0
// What a validation prints, word for word, of steps with round numbers; and where a fit ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/evidence/step_fit.h"
#include "sim/evidence/validation.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

HardwareStep measured_step(const std::string& plan, const std::vector<double>& repeats, double fc1,
                           double waiting) {
  HardwareStep step{plan, {}, {}};
  for (const double repeat : repeats) step.repeats.emplace_back(repeat);
  step.ops.kinds[{"fc1", Stage::experts, Stream::compute}] = Seconds(fc1);
  step.ops.waiting = Seconds(waiting);
  return step;
}

/// a: two steps of 2 and 4 s, simulated as 3 and 6 s. b: one of 6 s, simulated as 3 s. c did not
/// run.
ResultValidation two_policies() {
  HardwareResult measured{"m.json", "7", "today", "Gloo", 0, 2, 1, 1, 3, {}, {}};
  measured.cases = {
      {"b", "", 2, {measured_step("3", {6}, 3, 0)}},
      {"c", "too few GPUs\n", 0, {}},
      {"a", "", 1, {measured_step("1", {3, 1, 2}, 1, 1), measured_step("2", {4, 4, 5}, 2, 0)}}};
  measured.cases[2].steps[1].ops.kinds[{"gate", Stage::other, Stream::compute}] = Seconds(1);
  OpTimes ops;
  ops.kinds[{"fc1", Stage::experts, Stream::compute}] = Seconds(3);
  ops.kinds[{"fc2", Stage::experts, Stream::copy}] = Seconds(0.75);
  ops.waiting = Seconds(0.25);
  ResultValidation result =
      validate(measured, {{{"3"}, {Seconds(3)}, {}}, {{"1", "2"}, {Seconds(3), Seconds(6)}, ops}});
  result.setting = "one setting", result.topology = "rail", result.fidelity = "port";
  return result;
}

const std::string head =
    "# moesim v: measured against simulated. step: mean over steps; spread: (most - least) / "
    "median "
    "of repeats\n# ops: mean over ranks, sum over a step; exchanges from the last joining to the "
    "last end, waiting before apart\n";

TEST(ValidationText, HasBothTimesOfPoliciesAndOps) {
  // a: the mean of spreads of 2 / 2 and 1 / 4.
  EXPECT_EQ(squeezed(validation_text({{two_policies()}, 0.5}, "v").text()), head + R"(
# m.json
# one setting
# measured: Gloo, 2 ranks on 1 host, today; median of 3 repeats after 1 warm-up
# simulated: rail at port, the very plans that were measured
policy measured simulated error spread place measured place simulated #wrong
a 3 s 4.5 s +50.0 % 62.5 % 1 2 1
b 6 s 3 s -50.0 % 0.0 % 2 1 2
c: not run: too few GPUs

policy op stage stream measured simulated error of step
a fc1 experts compute 1.5 s 3 s +100.0 % 50.0 %
a gate other compute 500 ms - - 16.7 %
a fc2 experts copy - 750 ms - 0.0 %
a waiting - - 500 ms 250 ms -50.0 % 16.7 %
b fc1 experts compute 3 s - - 50.0 %
b waiting - - - - - 0.0 %

order: 1 of 1 pair differ by more than 10 % as measured, 1 of them ordered wrongly
 a is faster than b, but not simulated so

step time: mean absolute error 50.0 %, worst +50.0 % (a); tolerance 50.0 %
note: the repeats of 1 of 2 cases spread by more than the tolerance; more repeats, or a quieter machine
not valid: 1 pair ordered wrongly; 3 wrong elements, whose times prove nothing
)");
}

TEST(ValidationText, OfSeveralResultsNamesTheFileOfTheWorst) {
  ResultValidation worse = two_policies();
  worse.measured.file = "n.json";
  worse.policies[1].simulated = Seconds(1.5);
  worse.misordered.clear();
  const Validation both{{two_policies(), worse}, 0.6};
  const std::string text = squeezed(validation_text(both, "v").text());
  EXPECT_THAT(text,
              testing::HasSubstr("more than 10 % as measured, none of them ordered wrongly\n"));
  EXPECT_THAT(text,
              testing::HasSubstr("error 56.2 %, worst -75.0 % (b of n.json); tolerance 60.0 %"));
  EXPECT_THAT(text, testing::HasSubstr("the repeats of 2 of 4 cases spread by more"));
}

TEST(ValidationText, SpreadsOfTheToleranceAreNoNote) {
  EXPECT_EQ(validation_text({{two_policies()}, 0.625}, "v").text().find("note"), std::string::npos);
}

TEST(ValidationText, TheDocumentHasAllOfIt) {
  const auto document =
      nlohmann::ordered_json::parse(validation_json({{two_policies()}, 0.5}, "v"));
  EXPECT_EQ(
      document.dump(),
      R"({"format":"moesim-validation","format_version":1,"moesim":"v","tolerance":0.5,)"
      R"("order_margin":0.1,"mean_absolute_error":0.5,"misordered":1,"valid":false,)"
      R"("results":[{"file":"m.json","measured_by":"7","description":"Gloo","date":"today",)"
      R"("ranks":2,"hosts":1,"warmup":1,"repeats":3,"topology":"rail","fidelity":"port",)"
      R"("policies":[{"policy":"a","measured_s":3.0,"spread":0.625,"simulated_s":4.5,)"
      R"("error":0.5,"measured_place":1,"simulated_place":2,"wrong":1,)"
      R"("measured_waiting_s":0.5,"simulated_waiting_s":0.25,"ops":[)"
      R"({"name":"fc1","stage":"experts","stream":"compute","measured_s":1.5,"simulated_s":3.0},)"
      R"({"name":"gate","stage":"other","stream":"compute","measured_s":0.5,"simulated_s":0.0},)"
      R"({"name":"fc2","stage":"experts","stream":"copy","measured_s":0.0,"simulated_s":0.75}]},)"
      R"({"policy":"b","measured_s":6.0,"spread":0.0,"simulated_s":3.0,"error":-0.5,)"
      R"("measured_place":2,"simulated_place":1,"wrong":2,"measured_waiting_s":0.0,)"
      R"("simulated_waiting_s":0.0,"ops":[{"name":"fc1","stage":"experts",)"
      R"("stream":"compute","measured_s":3.0,"simulated_s":0.0}]}],)"
      R"("pairs":1,"ordered_pairs":1,"misordered":[["a","b"]]}]})");
}

TEST(ValidationText, ExactlyTenPercentIsNoOrder) {
  HardwareResult measured;
  measured.cases = {{"a", "", 0, {measured_step("1", {10}, 0, 0)}},
                    {"b", "", 0, {measured_step("1", {11}, 0, 0)}},
                    {"c", "", 0, {measured_step("1", {12}, 0, 0)}}};
  const SimulatedCase slow{{"1"}, {Seconds(2)}, {}}, fast{{"1"}, {Seconds(1)}, {}};
  const ResultValidation result = validate(measured, {slow, fast, fast});
  EXPECT_EQ(result.pairs, 3);
  EXPECT_EQ(result.ordered_pairs, 1);
  EXPECT_THAT(result.misordered, ElementsAre(PolicyPair{"a", "c"}));
}

TEST(StepFits, LogarithmsThatAreLinearAreFoundInThreeRounds) {
  int asked = 0;
  const StepTime time = [&](const TimedStep& step, const std::vector<FittedValue>& values) {
    ++asked;
    const double a = values[0].value, b = values[1].value;
    return Seconds(step.name == "one" ? a * a * b : step.name == "two" ? b * b * b : a * b * b);
  };
  std::vector<TimedStep> steps;
  for (const char* const name : {"one", "two", "three"}) {
    steps.push_back({name, {}, {}, false});
    steps.back().time = time(steps.back(), {{"a", "", 1, 9, 3}, {"b", "", 1, 9, 2}});
  }
  asked = 0;
  const auto values = fit_steps(steps, {{"a", "", 1, 9, 1.5}, {"b", "", 1, 9, 0}}, time);
  EXPECT_NEAR(values[0].value, 3, 1e-4);
  EXPECT_NEAR(values[1].value, 2, 1e-4);
  EXPECT_LE(asked, 3 * (1 + 3 * 3)) << "of each round two slopes and a step";
  EXPECT_EQ(FittedValue({"a", "", 1, 9, 2.41234}).text(), "2.412");
}

TEST(StepFits, AnEdgeIsEitherEnd) {
  EXPECT_TRUE(FittedValue({"a", "", 1, 9, 1}).at_its_edge());
  EXPECT_TRUE(FittedValue({"a", "", 1, 9, 9}).at_its_edge());
  EXPECT_FALSE(FittedValue({"a", "", 1, 9, 1.001}).at_its_edge());
  EXPECT_FALSE(FittedValue({"a", "", 1, 9, 8.99}).at_its_edge());
}

}  // namespace
}  // namespace moesim
