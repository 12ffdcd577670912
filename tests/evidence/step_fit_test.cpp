// SPDX-License-Identifier: Apache-2.0
// Values fitted to the times of whole steps.
#include "sim/evidence/step_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

/// Steps of `work` at a rate, and of `bytes` on a link: work / rate + bytes / bandwidth.
struct TwoCosts {
  double work, bytes;
};

Seconds time_at(const TwoCosts& step, double rate, double bandwidth) {
  return Seconds(step.work / rate + step.bytes / bandwidth);
}

class StepFitTest : public testing::Test {
 protected:
  static constexpr double rate = 0.62, bandwidth = 3.1;

  static std::vector<TimedStep> measured(double noise = 0) {
    std::vector<TimedStep> steps;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const double off = i % 2 == 0 ? 1 + noise : 1 - noise;
      steps.push_back({std::to_string(i), {}, time_at(costs[i], rate, bandwidth) * off, false});
    }
    return steps;
  }
  static Seconds simulated(const TimedStep& step, const std::vector<FittedValue>& values) {
    return time_at(costs[static_cast<std::size_t>(std::stoi(step.name))], values[0].value,
                   values[1].value);
  }
  static std::vector<FittedValue> wanted() {
    return {parse_fitted_value("rate=0.1:1"), parse_fitted_value("link=0.5:50 GB/s")};
  }
  static std::string refusal(const std::vector<TimedStep>& steps,
                             const std::vector<FittedValue>& values, const StepTime& time) {
    return error_of([&] { fit_steps(steps, values, time); });
  }

  inline static const std::vector<TwoCosts> costs = {{1, 1}, {4, 1}, {1, 20}, {3, 0.6}};
};

TEST_F(StepFitTest, FindsWhatStepsWereMadeWith) {
  const auto values = fit_steps(measured(), wanted(), simulated);
  EXPECT_NEAR(values[0].value, rate, 1e-3 * rate);
  EXPECT_NEAR(values[1].value, bandwidth, 1e-3 * bandwidth);
  EXPECT_EQ(values[1].change().path, "link");
  EXPECT_EQ(values[1].change().value, "3.1 GB/s");
}

TEST_F(StepFitTest, IsTheLeastSumOfSquares) {
  const auto steps = measured(0.1);
  const auto values = fit_steps(steps, wanted(), simulated);
  const auto squares = [&](double r, double b) {
    double sum = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const double error = std::log(time_at(costs[i], r, b) / *steps[i].time);
      sum += error * error;
    }
    return sum;
  };
  const double found = squares(values[0].value, values[1].value);
  for (double r = 0.1; r <= 1; r += 0.01) {
    for (double b = 0.5; b <= 50; b *= 1.02) EXPECT_GE(squares(r, b), found - 1e-5);
  }
}

TEST_F(StepFitTest, StaysInItsRangeAndSaysSo) {
  auto values = wanted();
  values[1].high = 2;
  values = fit_steps(measured(), values, simulated);
  EXPECT_DOUBLE_EQ(values[1].value, 2);
  EXPECT_TRUE(values[1].at_its_edge());
  EXPECT_FALSE(values[0].at_its_edge());
}

TEST_F(StepFitTest, StepsThatAreHeldOutOrDidNotFitCountNothing) {
  auto steps = measured();
  steps[0].time = *steps[0].time * 7;
  steps[0].held_out = true;
  steps[1].time.reset();
  const auto values = fit_steps(steps, wanted(), simulated);
  EXPECT_NEAR(values[0].value, rate, 1e-3 * rate);
  steps[2].held_out = true;
  EXPECT_THAT(refusal(steps, wanted(), simulated),
              HasSubstr("2 values cannot be fitted to 1 measured steps"));
}

TEST_F(StepFitTest, RefusesAValueWithoutEffect) {
  auto values = wanted();
  values.push_back(parse_fitted_value("nothing=1:2"));
  EXPECT_THAT(refusal(measured(), values, simulated),
              HasSubstr("'nothing' changes none of the fitted steps"));
}

TEST_F(StepFitTest, RefusesValuesThatCannotBeToldApart) {
  auto steps = measured();
  steps[0].held_out = steps[1].held_out = true;
  const StepTime alike = [](const TimedStep& step, const std::vector<FittedValue>& values) {
    return time_at(costs[static_cast<std::size_t>(std::stoi(step.name))],
                   values[0].value * values[1].value, bandwidth);
  };
  EXPECT_THAT(refusal(steps, wanted(), alike), HasSubstr("'rate' and 'link' change"));
}

class MeasuredStepsTest : public testing::Test {
 protected:
  ~MeasuredStepsTest() override { std::filesystem::remove(path_); }
  std::vector<TimedStep> read(const std::string& text) const {
    write_file(path_, text);
    return read_measured_steps(path_);
  }
  std::string refusal(const std::string& text) const {
    return error_of([&] { read(text); });
  }
  const std::string path_ = testing::TempDir() + "measured_steps.csv";
};

TEST_F(MeasuredStepsTest, AreRead) {
  const auto steps = read(
      "name;parallel.tp;seconds;use\r\nfirst;4;0.487;\r\n# a "
      "remark\n\n;;oom;fit\nlast;8;2;predict");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].name, "first");
  ASSERT_EQ(steps[0].changes.size(), 1u);
  EXPECT_EQ(steps[0].changes[0].path, "parallel.tp");
  EXPECT_EQ(steps[0].changes[0].value, "4");
  EXPECT_EQ(steps[0].changes[0].str(), path_ + ":2: parallel.tp=4");
  EXPECT_EQ(steps[0].time, Seconds(0.487));
  EXPECT_TRUE(steps[0].is_fitted());
  EXPECT_EQ(steps[1].name, "line 5");
  EXPECT_TRUE(steps[1].changes.empty());
  EXPECT_FALSE(steps[1].time);
  EXPECT_TRUE(steps[2].held_out);
}

TEST_F(MeasuredStepsTest, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_THAT(refusal(""), HasSubstr("holds no measured steps"));
  EXPECT_THAT(refusal("parallel.tp,time\n1,2\n"), HasSubstr(":1: error: has no column 'seconds'"));
  EXPECT_THAT(refusal("seconds\n"), HasSubstr("has column names and no measured steps"));
  EXPECT_THAT(refusal("seconds,seconds\n1,1\n"), HasSubstr("has the column 'seconds' twice"));
  EXPECT_THAT(refusal("seconds,ep\n1,2\n1\n"), HasSubstr(":3: error: 1 cells under 2 columns"));
  for (const char* time : {"-1", "0", "nan", "inf", "1 s", ""}) {
    EXPECT_THAT(refusal(std::string("seconds,ep\n") + time + ",2\n"),
                HasSubstr(std::string(":2: error: 'seconds' is '") + time + "'"));
  }
  EXPECT_THAT(refusal("seconds,use\n1,maybe\n"), HasSubstr("'use' is 'maybe'"));
}

TEST(FittedValue, IsAKeyWithARange) {
  const FittedValue value = parse_fitted_value("topology.levels.0.bandwidth=1:25 GB/s");
  EXPECT_EQ(value.key, "topology.levels.0.bandwidth");
  EXPECT_DOUBLE_EQ(value.low, 1);
  EXPECT_DOUBLE_EQ(value.high, 25);
  EXPECT_EQ(value.unit, "GB/s");
  for (const char* wrong : {"", "key", "key=1", "=1:2", "key=2:1", "key=1:1", "key=0:1", "key=a:2",
                            "key=1:b", "a..b=1:2", "key=1:"}) {
    EXPECT_THROW(parse_fitted_value(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace moesim
