// SPDX-License-Identifier: Apache-2.0
// What a file of times keeps, and what is said of one that is not whole or not of these plans.
#include "realhw/calibrate/times_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "realhw/calibrate/origin_json.h"
#include "tests/error_of.h"
#include "tests/realhw/calibrate/measured_calibration.h"

namespace moesim {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Interval in_nanoseconds(double start, double end) {
  return {Seconds(start * 1e-9), Seconds(end * 1e-9)};
}

/// A file of times in a folder of its own.
class FileOfTimes : public ::testing::Test {
 protected:
  FileOfTimes() { std::filesystem::create_directories(folder_); }
  ~FileOfTimes() override { std::filesystem::remove_all(folder_); }
  static Timeline timeline(double later) {
    Timeline t;
    t.ops.add_row({in_nanoseconds(10 + later, 50), in_nanoseconds(20, 90)});
    t.ops.add_row({in_nanoseconds(60.4, 70.6)});
    t.ops.add_row(std::initializer_list<Interval>{});
    return t;
  }
  /// The text of a file whose first line is sound, and the lines given.
  std::string with_lines(const std::string& lines) const {
    TimesFile(path_, calibration_.head(), "head\n" + lines);
    return read_file(path_);
  }
  std::string parsed(const std::string& text) const {
    return error_of([&] { parse_times(text, "f"); });
  }
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / fmt::format("moesim_times_file_{}", getpid());
  std::string path_ = (folder_ / "t.times.jsonl").string();
  MeasuredCalibration calibration_;
};

TEST_F(FileOfTimes, KeepsWholeNanosecondsOfEveryGpuOfEveryOp) {
  TimesFile file(path_, calibration_.head());
  file.add("a", 0, {timeline(0), timeline(1)});
  file.add("b", 0, {timeline(2)});
  file.add("a", 1, {timeline(3)});
  EXPECT_THAT(read_file(path_),
              EndsWith("{\"plan\":\"a\",\"round\":0,\"ns\":[[[10,50,20,90],[60,71],[]],"
                       "[[11,50,20,90],[60,71],[]]]}\n"
                       "{\"plan\":\"b\",\"round\":0,\"ns\":[[[12,50,20,90],[60,71],[]]]}\n"
                       "{\"plan\":\"a\",\"round\":1,\"ns\":[[[13,50,20,90],[60,71],[]]]}\n"));
  const Times times = read_times(path_).times;
  EXPECT_EQ(times.size(), 2u);
  const auto all = timelines_of(times, "a");
  ASSERT_EQ(all.size(), 3u) << "by round";
  for (std::size_t run = 0; run < all.size(); ++run) {
    const double starts[] = {10e-9, 11e-9, 13e-9};
    ASSERT_EQ(all[run].ops.size(), 3u);
    ASSERT_EQ(all[run].ops[0].size(), 2u);
    EXPECT_NEAR(all[run].ops[0][0].start.value, starts[run], 1e-15);
    EXPECT_NEAR(all[run].ops[0][0].end.value, 50e-9, 1e-15);
    EXPECT_NEAR(all[run].ops[0][1].start.value, 20e-9, 1e-15);
    EXPECT_NEAR(all[run].ops[1][0].end.value, 71e-9, 1e-15);
    EXPECT_TRUE(all[run].ops[2].empty());
    EXPECT_NEAR(all[run].makespan.value, 90e-9, 1e-15) << "the last end";
  }
  EXPECT_TRUE(timelines_of(times, "c").empty());
}

TEST_F(FileOfTimes, GoesOnBehindWholeLines) {
  const std::string first = "{\"plan\":\"a\",\"round\":0,\"ns\":[]}\n";
  TimesFile file(path_, calibration_.head(), "another head\n" + first + "{\"plan\":\"b\",\"ro");
  file.add("b", 0, {});
  const std::string text = read_file(path_);
  EXPECT_EQ(text.substr(text.find('\n') + 1), first + "{\"plan\":\"b\",\"round\":0,\"ns\":[]}\n");
  EXPECT_EQ(origin_json(read_times(path_).head.origin), origin_json(calibration_.head().origin));
}

TEST_F(FileOfTimes, TakesTheLastOfTwoLinesOfARound) {
  const std::string text = with_lines(
      "{\"plan\":\"a\",\"round\":0,\"ns\":[[[1,2]],[[1,2]]]}\n"
      "{\"plan\":\"a\",\"round\":0,\"ns\":[[[3,4]]]}\n");
  const auto timelines = timelines_of(parse_times(text, "f").times, "a");
  ASSERT_EQ(timelines.size(), 1u);
  EXPECT_NEAR(timelines[0].ops[0][0].start.value, 3e-9, 1e-15);
}

TEST_F(FileOfTimes, SaysWhichLineIsBroken) {
  const std::string sound = "{\"plan\":\"a\",\"round\":0,\"ns\":[[[1,2]]]}\n";
  EXPECT_EQ(parsed(with_lines(sound)), "");
  EXPECT_THAT(parsed(with_lines(sound + "{\"plan\":\"a\",\"round\":1,\"ns\":[[[1,2,3]]]}\n")),
              StartsWith("f:3: error: this line is not a measured time: "))
      << "a start without an end";
  EXPECT_THAT(parsed(with_lines("{\"plan\":\"a\",\"round\":1,\"ns\":[[[1,\"2\"]]]}\n")),
              StartsWith("f:2: error: this line is not a measured time: "));
  EXPECT_THAT(parsed(with_lines(sound + sound + "{\"plan\":\n")), StartsWith("f:4"));
  EXPECT_THAT(parsed(with_lines(sound + "\n" + sound)), StartsWith("f:3"));
  EXPECT_THAT(parsed(with_lines("[]\n")), HasSubstr("copy the file again, or measure anew"));
}

TEST_F(FileOfTimes, IsToldFromOtherFiles) {
  const std::string none =
      "f:1: error: this is not a file of times\nhint: moesim-hw calibrate writes "
      "PREFIX.times.jsonl\n";
  EXPECT_EQ(parsed(""), none);
  EXPECT_EQ(parsed("no line"), none);
  for (const char* first : {"name: t\n", "[1, 2]\n", "{}\n", "\n", "{\"format\":\"moesim\"}\n"}) {
    EXPECT_EQ(parsed(first), none) << first;
  }
  EXPECT_THAT(parsed("{\"format\":\"moesim-hw-times\"}\n"),
              StartsWith("f:1: error: this line is not a measured time: "))
      << "of no version";
}

TEST_F(FileOfTimes, CannotGoOnWithoutItsFolder) {
  TimesFile file(path_, calibration_.head());
  std::filesystem::remove_all(folder_);
  try {
    file.add("a", 0, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), StartsWith(path_ + ": error: cannot be written"));
  }
  EXPECT_THROW(TimesFile(path_, calibration_.head()), Error);
}

/// What the first line is refused for if one of its numbers is another one.
std::string refused_origin(const std::string& key, int number) {
  auto json = origin_json(MeasuredCalibration().head().origin);
  json[key] = number;
  try {
    read_calibration_origin(json);
  } catch (const Error& e) {
    return e.diagnostics().front().message;
  }
  return "";
}

TEST_F(FileOfTimes, IsOfSomethingThatCanBeMeasured) {
  for (const char* key : {"hidden", "expert_ffn", "ranks", "rounds", "runs_of_a_round"}) {
    EXPECT_EQ(refused_origin(key, 1), "") << key;
  }
  EXPECT_EQ(refused_origin("hidden", 0), "the model has no sizes");
  EXPECT_EQ(refused_origin("expert_ffn", 0), "the model has no sizes");
  EXPECT_EQ(refused_origin("ranks", 0), "the cluster has no GPUs");
  EXPECT_EQ(refused_origin("rounds", 0), "nothing is to be measured");
  EXPECT_EQ(refused_origin("runs_of_a_round", 0), "nothing is to be measured");
}

TEST_F(FileOfTimes, KnowsTheMultiprocessorsOfEveryRankOrOfNone) {
  const TimesHead head = calibration_.head();
  const auto refused = [&](const std::vector<int>& sms) -> std::string {
    Provenance p = head.provenance;
    p.sms = sms;
    const auto json = provenance_json(p);
    EXPECT_EQ(json.contains("sms"), !sms.empty());
    try {
      EXPECT_EQ(read_provenance(json, head.origin).sms, sms);
    } catch (const Error& e) {
      return e.diagnostics().front().message;
    }
    return "";
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({1}), "");
  EXPECT_EQ(refused({0}), "'sms' has a GPU without multiprocessors");
  EXPECT_EQ(refused({2, 2}), "'sms' is of 2 ranks, not of 1");
}

TEST_F(FileOfTimes, HasNoTimesBeforeTheFirstRoundOrAfterTheLast) {
  calibration_.measure(false);
  const MicroPlan& plan = *calibration_.plans.front();
  Times times = calibration_.measured;
  const auto complaint = [&] {
    try {
      check_times(times, calibration_.plans, calibration_.options, "f");
    } catch (const Error& e) {
      return e.diagnostics().front().message;
    }
    return std::string();
  };
  EXPECT_EQ(complaint(), "");
  const auto refused_round = [&](int round) {
    times[plan.name][round] = times[plan.name][0];
    const std::string message = complaint();
    times[plan.name].erase(round);
    return message;
  };
  EXPECT_EQ(refused_round(-1),
            fmt::format("the times of '{}' in round 0 do not fit the plan", plan.name));
  EXPECT_EQ(refused_round(2),
            fmt::format("the times of '{}' in round 3 do not fit the plan", plan.name));
  for (const std::size_t op : {std::size_t{0}, plan.plan.ops.size() - 1}) {
    Timeline broken;
    const Timeline& whole = calibration_.measured[plan.name][1][2];
    for (std::size_t i = 0; i < whole.ops.size(); ++i) {
      broken.ops.add_row(std::vector<Interval>(i == op ? 2 : 1, whole.ops[i][0]));
    }
    times = calibration_.measured;
    times[plan.name][1][2] = broken;
    EXPECT_EQ(complaint(),
              fmt::format("the times of '{}' in round 2 do not fit the plan", plan.name));
  }
}

TEST_F(FileOfTimes, NamesThreeMeasurementsThatItLacks) {
  calibration_.measure(false);
  const auto& plans = calibration_.plans;
  ASSERT_EQ(plans.size(), 3u);
  using Missing = std::vector<std::pair<std::size_t, int>>;  // plan and round
  const auto lacks = [&](const Missing& missing) -> std::string {
    Times times = calibration_.measured;
    for (const auto& [plan, round] : missing) times[plans[plan]->name].erase(round);
    try {
      check_complete(times, plans, calibration_.options, "f");
    } catch (const Error& e) {
      return e.diagnostics().front().message;
    }
    return "";
  };
  const auto named = [&](std::size_t plan, int round) {
    return fmt::format("'{}' in round {}", plans[plan]->name, round);
  };
  EXPECT_EQ(lacks({}), "");
  EXPECT_EQ(lacks({{1, 1}}), "lacks 1 of 6 measurements: " + named(1, 2));
  const std::string three = named(1, 1) + ", " + named(0, 2) + ", " + named(1, 2);
  EXPECT_EQ(lacks({{1, 0}, {0, 1}, {1, 1}}), "lacks 3 of 6 measurements: " + three);
  EXPECT_EQ(lacks({{1, 0}, {0, 1}, {1, 1}, {2, 1}}),
            "lacks 4 of 6 measurements: " + three + " ...");
  Times of_other_plans = calibration_.measured;
  of_other_plans.erase(plans[2]->name);
  EXPECT_THROW(check_complete(of_other_plans, plans, calibration_.options, "f"), Error);
}

}  // namespace
}  // namespace moesim
