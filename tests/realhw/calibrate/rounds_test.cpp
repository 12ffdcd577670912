// SPDX-License-Identifier: Apache-2.0
// Rounds on hardware that only counts, and calibrations that are interrupted.
#include "realhw/calibrate/rounds.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "realhw/calibrate/origin_json.h"
#include "tests/realhw/calibrate/measured_calibration.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

TEST(Rounds, MeasureEveryPlanInEveryRound) {
  MeasuredCalibration c;
  c.measure(false);
  const int count = static_cast<int>(c.plans.size());
  EXPECT_EQ(c.backend.runners, 2 * count);
  EXPECT_EQ(c.backend.runs, 2 * count * (1 + 1 + 3 + 1));
  for (const MicroPlan* plan : c.plans) {
    const auto timelines = timelines_of(c.measured, plan->name);
    ASSERT_EQ(timelines.size(), 6u);
    EXPECT_NEAR(timelines[0].ops[0][0].end.value - timelines[0].ops[0][0].start.value, 1e-3, 1e-9);
  }
}

TEST(Rounds, GoOnWhereTheyWereInterrupted) {
  MeasuredCalibration c;
  c.backend.fault = 3;
  EXPECT_THROW(c.measure(false), std::runtime_error);
  const int count = static_cast<int>(c.plans.size());
  c.backend = {};
  c.measure(true);
  EXPECT_EQ(c.backend.runners, 2 * count - 3);
  EXPECT_EQ(timelines_of(c.measured, c.plans[0]->name).size(), 6u);
  c.backend = {};
  c.measure(true);
  EXPECT_EQ(c.backend.runners, 0);
}

TEST(Rounds, MeasureALineThatWasCutShortAgain) {
  MeasuredCalibration c;
  c.measure(false);
  const std::string text = read_file(c.path);
  write_file(c.path, text.substr(0, text.size() - 10));
  c.backend = {};
  c.measure(true);
  EXPECT_EQ(c.backend.runners, 1);
  EXPECT_EQ(read_times(c.path).times.size(), c.plans.size());
}

TEST(Rounds, SayWhatTheyAreOf) {
  MeasuredCalibration c;
  c.measure(false);
  const TimesHead was = c.head(), is = read_times(c.path).head;
  EXPECT_EQ(origin_json(is.origin), origin_json(was.origin));
  EXPECT_EQ(is.origin.inputs.set, std::vector<std::string>{"model.hidden=64"});
  EXPECT_EQ(is.origin.rounds.repeats, 3);
  EXPECT_EQ(is.origin.shape.ffn, c.model.expert_ffn);
  EXPECT_EQ(yaml_of(is.provenance), yaml_of(was.provenance));
  EXPECT_THAT(yaml_of(is.provenance), HasSubstr("hosts: [\"b\", \"a\"]\n  ranks: 1\n"));
}

TEST(Rounds, RefuseBrokenTimes) {
  MeasuredCalibration c;
  c.measure(false);
  const std::string text = read_file(c.path), name = c.plans[0]->name;
  const std::size_t second = text.find('\n') + 1;
  EXPECT_EQ(c.complaint(text), "");
  EXPECT_THAT(c.complaint("hello\n"), HasSubstr(":1: error: this is not a file of times"));
  EXPECT_THAT(c.complaint(""), HasSubstr("this is not a file of times"));
  EXPECT_THAT(c.complaint(text.substr(0, second - 1)), HasSubstr("this is not a file of times"));
  EXPECT_THAT(c.complaint(text.substr(second)), HasSubstr("this is not a file of times"));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return c.complaint(other.replace(at, from.size(), to));
  };
  EXPECT_THAT(replaced("\"format_version\":2", "\"format_version\":1"),
              HasSubstr(":1: error: is of version 1; this program reads version 2"));
  EXPECT_THAT(replaced("\"ranks\":1", "\"ranks\":0"), HasSubstr("the cluster has no GPUs"));
  EXPECT_THAT(replaced("\"provenance\"", "\"provenence\""), HasSubstr("'provenance' not found"));
  EXPECT_THAT(c.complaint(text + "{\"plan\": 3}\n"), HasSubstr("this line is not a measured time"));
  EXPECT_THAT(replaced("\"plan\":\"" + name, "\"plan\":\"other " + name),
              HasSubstr("'other " + name + "' is not a plan of these"));
  EXPECT_THAT(replaced("\"round\":1", "\"round\":2"),
              HasSubstr("the times of '" + name + "' in round 3 do not fit the plan"));
  EXPECT_THAT(replaced("\"ns\":[[[", "\"ns\":[[],[["), HasSubstr("do not fit the plan"));  // a run
  EXPECT_THAT(replaced("\"ns\":[[[", "\"ns\":[[[],["), HasSubstr("do not fit the plan"));  // an op
}

TEST(Rounds, TellWhatIsMissing) {
  MeasuredCalibration c;
  c.backend.fault = static_cast<int>(c.plans.size()) + 1;
  EXPECT_THROW(c.measure(false), std::runtime_error);
  const auto check = [&](const Times& times) { check_complete(times, c.plans, c.options, c.path); };
  try {
    check(read_times(c.path).times);
    FAIL();
  } catch (const Error& e) {
    const std::size_t count = c.plans.size();
    EXPECT_THAT(e.what(), HasSubstr(fmt::format("lacks {} of {} measurements: '{}' in round 2, ",
                                                count - 1, 2 * count, c.plans[1]->name)));
  }
  c.backend = {};
  c.measure(true);
  check(read_times(c.path).times);
}

TEST(Rounds, GoOnWithTheSameHardwareAlone) {
  const Provenance first = MeasuredCalibration().head().provenance;
  Provenance now = first;
  now.command = "again";
  now.hosts = {"c", "a"};
  const Provenance both = continued(first, now, "f");
  EXPECT_EQ(both.command, first.command);
  EXPECT_EQ(both.hosts, (std::vector<std::string>{"b", "a", "c"}));
  now.sms = {132, 132};
  EXPECT_EQ(continued(first, now, "f").sms, now.sms);
  Provenance of_gpus = now;
  of_gpus.sms = {132, 66};
  EXPECT_THROW(continued(of_gpus, now, "f"), Error);
  now.processors = {"another"};
  EXPECT_THROW(continued(first, now, "f"), Error);
  now.processors = first.processors;
  now.backend = "another";
  EXPECT_THROW(continued(first, now, "f"), Error);
}

TEST(Rounds, RecordTheMultiprocessorsOfTheGpu) {
  LoneJob job;
  CountingBackend backend;
  const CalibrationOrigin origin = MeasuredCalibration().head().origin;
  EXPECT_TRUE(provenance_of(job, backend, origin).sms.empty()) << "there is no GPU";
  backend.sms_of_gpu = 132;
  TimesHead head{origin, provenance_of(job, backend, origin)};
  EXPECT_EQ(head.provenance.sms, std::vector<int>{132});
  const std::string path = MeasuredCalibration().path;
  TimesFile(path, head, "");
  EXPECT_EQ(read_times(path).head.provenance.sms, std::vector<int>{132});
}

TEST(Rounds, EndWithWrongNumbers) {
  MeasuredCalibration c;
  c.backend.wrong = 1;
  EXPECT_THROW(c.measure(false), std::runtime_error);
}

}  // namespace
}  // namespace moesim
