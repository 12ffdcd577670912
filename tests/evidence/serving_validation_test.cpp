// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/serving_validation.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;

ServedBenchmark benchmark(std::int64_t requests) {
  ServedBenchmark b;
  b.file = "result.json";
  b.requests = requests;
  b.input = 512;
  b.output = 16;
  b.output_rate = 1000;
  return b;
}

TEST(BenchmarkLoads, AreWhatWasSet) {
  ServedBenchmark b = benchmark(100);
  EXPECT_TRUE(load_of(b).in_flight) << "all at once";
  EXPECT_EQ(load_of(b).of, 100);
  b.in_flight = 16;
  EXPECT_EQ(load_of(b).of, 16);
  EXPECT_THAT(load_of(b).note, IsEmpty());
  b.in_flight = 1000;
  EXPECT_EQ(load_of(b).of, 100) << "no more than there are";
  b.in_flight_is_mean = true;
  EXPECT_THAT(load_of(b).note, HasSubstr("its mean"));
}

TEST(BenchmarkLoads, OfARateWithALimitAreWhatHeldThemBack) {
  ServedBenchmark b = benchmark(100);
  b.rate = 5;
  EXPECT_FALSE(load_of(b).in_flight);
  EXPECT_EQ(load_of(b).of, 5);
  b.in_flight = 8;
  b.duration = 25;
  b.latency.mean = 0.5;  // 100 x 0.5 s / 25 s: 2 in flight
  EXPECT_FALSE(load_of(b).in_flight);
  EXPECT_THAT(load_of(b).note, HasSubstr("by the former"));
  b.latency.mean = 1.9;  // 7.6
  EXPECT_TRUE(load_of(b).in_flight);
  EXPECT_EQ(load_of(b).of, 8);
  EXPECT_THAT(load_of(b).note, HasSubstr("by the latter"));
}

/// The errors of all figures of one benchmark.
class ServingValidations : public testing::Test {
 protected:
  static ServingValidation validated(const std::vector<ServedBenchmark>& benchmarks,
                                     std::vector<Override> more = {}) {
    std::vector<Override> changes = {{"policy", "deepep-low-latency", ""},
                                     {"routing", "balanced", ""}};
    changes.insert(changes.end(), more.begin(), more.end());
    ComparisonOptions options;
    return validate_serving(MOESIM_ROOT "/scenarios/serving-engine.yaml", changes, benchmarks,
                            "test", options);
  }
};

/// A benchmark of an engine that is just as the simulator says.
TEST_F(ServingValidations, OfThePerfectEngineHasNoErrors) {
  ServedBenchmark b = benchmark(3);
  b.in_flight = 2;
  b.inputs = {512, 700, 64};
  b.outputs = {16, 3, 9};
  const ServingMetrics first = validated({b}).runs[0].simulated.metrics;
  EXPECT_EQ(first.requests, 3);
  const Percentiles& ttft = first.ttft.linear;  // as its tool finds them
  b.ttft = {first.ttft.mean, ttft.p50, ttft.p90, ttft.p95, ttft.p99};
  b.tpot.mean = first.tpot.mean;
  b.gap.p99 = first.gap.linear.p99;
  b.latency.p50 = 2 * first.latency.linear.p50;
  b.output_rate = first.rates.output;
  b.request_rate = first.rates.requests;
  EXPECT_NEAR(first.rates.output / first.rates.requests, 28.0 / 3, 1e-9) << "its own lengths";

  const ServingValidation again = validated({b});
  const Json document = Json::parse(serving_validation_json(again, "test"));
  const Json& run = document["runs"][0];
  EXPECT_EQ(run["load"], "2 in flight");
  EXPECT_EQ(run["figures"].size(), 10u);
  for (const auto& [name, figure] : run["figures"].items()) {
    EXPECT_NEAR(figure["error"].get<double>(), name == "latency p50" ? -0.5 : 0, 1e-9) << name;
  }
  EXPECT_THAT(again.notes, IsEmpty());
  EXPECT_THAT(serving_validation_text(again).text(), HasSubstr("-50.0 %"));
  EXPECT_THAT(serving_validation_text(again).text(), Not(HasSubstr("-0.0 %")));

  b.tool = "trtllm-bench";
  b.ttft = b.tpot = b.gap = {};
  b.latency = {{}, first.latency.floor.p50, {}, {}, first.latency.floor.p99};
  const Json other = Json::parse(serving_validation_json(validated({b}), "test"));
  EXPECT_EQ(other["runs"][0]["figures"]["latency p50"]["error"], 0);
  EXPECT_EQ(other["runs"][0]["figures"]["latency p99"]["error"], 0);
}

TEST_F(ServingValidations, SayWhatABenchmarkLeavesOpen) {
  ServedBenchmark b = benchmark(2);
  b.failed = 1;
  b.model = "mistralai/Mixtral-8x7B";
  b.gpus = 8;
  b.backend = "sglang-oai-chat";
  b.rate = 100;
  b.burstiness = 4;
  ServedBenchmark other = benchmark(2);
  other.line = 7;
  const ServingValidation validation = validated({b, other});
  const std::string text = serving_validation_text(validation).text();
  EXPECT_THAT(text, HasSubstr("is of mistralai/Mixtral-8x7B, the scenario of gpt-oss-20b"));
  EXPECT_THAT(text, HasSubstr("is of sglang-oai-chat, the scenario of the engine vllm"));
  EXPECT_THAT(text, HasSubstr("ran on 8 GPUs, the scenario has 32"));
  EXPECT_THAT(text, HasSubstr("1 request failed"));
  EXPECT_THAT(text, HasSubstr("512 tokens in and 16 out"));
  EXPECT_THAT(text, HasSubstr("100/s"));
  EXPECT_THAT(text, HasSubstr("result.json:7  2 in flight"));
  EXPECT_THAT(text, HasSubstr("mean absolute error"));
}

TEST_F(ServingValidations, NeedOneCaseOfAnEngine) {
  EXPECT_THAT(error_of([] {
                validated({benchmark(1)}, {{"routing", "[balanced, recorded]", ""}});
              }),
              HasSubstr("several cases"));
  EXPECT_THAT(error_of([] {
                validate_serving(MOESIM_ROOT "/scenarios/iteration.yaml", {}, {benchmark(1)}, "",
                                 {});
              }),
              HasSubstr("the scenario has none"));
}

}  // namespace
}  // namespace moesim
