// SPDX-License-Identifier: Apache-2.0
// Results of benchmarks in the forms that tools write, all of one made-up run.
#include "sim/serving/measured/benchmark_reader.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

ServedBenchmark only_of(const std::string& text) {
  const auto results = read_served_benchmarks("result", text);
  EXPECT_EQ(results.size(), 1u);
  return results.front();
}

std::string error_with(const std::string& text) {
  return error_of([&] { read_served_benchmarks("result", text); });
}

auto about(double seconds) { return Optional(DoubleNear(seconds, 1e-12)); }

const std::string vllm =
    R"({"backend": "vllm", "model_id": "openai/gpt-oss-20b", "num_prompts": 100, )"
    R"("request_rate": "inf", "burstiness": 1.0, "max_concurrency": 16, "duration": 40.0, )"
    R"("completed": 98, "failed": 2, "total_input_tokens": 98000, "total_output_tokens": 9800, )"
    R"("request_throughput": 2.45, "output_throughput": 245.0, "mean_ttft_ms": 120.0, )"
    R"("median_ttft_ms": 110.0, "p99_ttft_ms": 260.0, "mean_tpot_ms": 12.0, )"
    R"("median_itl_ms": 10.0, "mean_e2el_ms": 1308.0})";

TEST(Benchmarks, OfVllm) {
  const ServedBenchmark b = only_of(vllm);
  EXPECT_EQ(b.tool, "vllm bench serve");
  EXPECT_EQ(b.model, "openai/gpt-oss-20b");
  EXPECT_EQ(b.requests, 98);
  EXPECT_EQ(b.failed, 2);
  EXPECT_EQ(b.rate, std::nullopt);
  EXPECT_THAT(b.in_flight, Optional(16.0));
  EXPECT_FALSE(b.in_flight_is_mean);
  EXPECT_EQ(b.input, 1000);
  EXPECT_EQ(b.output, 100);
  EXPECT_THAT(b.ttft.mean, about(0.12));
  EXPECT_THAT(b.ttft.p50, about(0.11));
  EXPECT_THAT(b.ttft.p99, about(0.26));
  EXPECT_EQ(b.ttft.p95, std::nullopt);
  EXPECT_THAT(b.tpot.mean, about(0.012));
  EXPECT_THAT(b.gap.p50, about(0.01));
  EXPECT_THAT(b.latency.mean, about(1.308));
  EXPECT_THAT(b.output_rate, Optional(245.0));
  EXPECT_THAT(b.duration, Optional(40.0));
  EXPECT_THAT(b.inputs, IsEmpty());
}

TEST(Benchmarks, OfVllmAtARateWithTheLengthsOfEach) {
  const ServedBenchmark b = only_of(
      R"({"completed": 2, "request_rate": 4.0, "burstiness": 0.5, "max_concurrency": null,
          "total_input_tokens": 30, "total_output_tokens": 12, "mean_ttft_ms": 5,
          "input_lens": [10, 99, 20], "output_lens": [5, 0, 7]})");
  EXPECT_THAT(b.rate, Optional(4.0));
  EXPECT_EQ(b.in_flight, std::nullopt);
  EXPECT_EQ(b.burstiness, 0.5);
  EXPECT_THAT(b.inputs, ElementsAre(10, 20)) << "the second one failed";
  EXPECT_THAT(b.outputs, ElementsAre(5, 7));
}

const std::string sglang_line =
    R"({"backend": "sglang", "request_rate": Infinity, "max_concurrency": 64, "duration": 10.0, )"
    R"("completed": 128, "total_input_tokens": 12800, "total_output_tokens": 1280, )"
    R"("request_throughput": 12.8, "output_throughput": 128.0, "mean_e2e_latency_ms": 900.0, )"
    R"("mean_ttft_ms": 50.0, "mean_tpot_ms": 8.0, "p95_itl_ms": 30.0, "concurrency": 11.5})"
    "\n";

TEST(Benchmarks, OfSglangAreLines) {
  const auto results = read_served_benchmarks("result", "\n" + sglang_line + "\n" + sglang_line);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].line, 2);
  EXPECT_EQ(results[1].line, 4);
  const ServedBenchmark& b = results[1];
  EXPECT_EQ(b.tool, "SGLang bench_serving");
  EXPECT_EQ(b.rate, std::nullopt);
  EXPECT_THAT(b.in_flight, Optional(64.0)) << "what was set, not the mean";
  EXPECT_THAT(b.latency.mean, about(0.9));
  EXPECT_THAT(b.gap.p95, about(0.03));
}

TEST(Benchmarks, AsVllmAndSglangPrintThem) {
  const auto results = read_served_benchmarks("log", R"(INFO starting
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 32
Successful requests:                     64
Benchmark duration (s):                  20.00
Total input tokens:                      6,400
Total generated tokens:                  640
Request throughput (req/s):              3.20
Output token throughput (tok/s):         32.00
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   700.00
---------------Time to First Token----------------
Median TTFT (ms):                        68.10
P99 TTFT (ms):                           90.00
---------------Inter-Token Latency----------------
Mean ITL (ms):                           9.50
==================================================
Mean TPOT (ms): 1
============ Serving Benchmark Result ============
Successful requests:                     10
Request rate configured (RPS):           2.00
Total input tokens:                      10
Total generated tokens:                  10
Mean TTFT (ms):                          1.00
==================================================
)");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].line, 2);
  EXPECT_EQ(results[0].requests, 64);
  EXPECT_EQ(results[0].input, 100);
  EXPECT_EQ(results[0].output, 10);
  EXPECT_THAT(results[0].in_flight, Optional(32.0));
  EXPECT_THAT(results[0].ttft.p50, about(0.0681));
  EXPECT_THAT(results[0].gap.mean, about(0.0095));
  EXPECT_THAT(results[0].output_rate, Optional(32.0));
  EXPECT_EQ(results[0].tpot.mean, std::nullopt) << "it comes after the result";
  EXPECT_EQ(results[1].line, 21);
  EXPECT_THAT(results[1].rate, Optional(2.0));
}

TEST(Benchmarks, OfAiperfHaveUnits) {
  const ServedBenchmark b = only_of(R"({
    "schema_version": "1.1",
    "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-30B-A3B"]},
                     "loadgen": {"concurrency": 8, "request_count": 40}},
    "request_count": {"unit": "requests", "avg": 40.0},
    "error_request_count": {"unit": "requests", "avg": 1.0},
    "request_latency": {"unit": "ms", "avg": 1500.0, "p50": 1400.0, "p95": 1800.0},
    "time_to_first_token": {"unit": "ms", "avg": 90.0, "p90": 120.0},
    "inter_token_latency": {"unit": "us", "avg": 9000.0},
    "input_sequence_length": {"unit": "tokens", "avg": 512.0},
    "output_sequence_length": {"unit": "tokens", "avg": 128.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 600.0},
    "request_throughput": {"unit": "requests/sec", "avg": 4.7},
    "benchmark_duration": {"unit": "sec", "avg": 8.5}})");
  EXPECT_EQ(b.tool, "AIPerf");
  EXPECT_EQ(b.model, "Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(b.requests, 40);
  EXPECT_EQ(b.failed, 1);
  EXPECT_THAT(b.in_flight, Optional(8.0));
  EXPECT_THAT(b.ttft.p90, about(0.12));
  EXPECT_THAT(b.tpot.mean, about(0.009)) << "a mean over each request";
  EXPECT_EQ(b.gap.mean, std::nullopt);
  EXPECT_THAT(b.latency.p95, about(1.8));
  EXPECT_EQ(b.input, 512);
  EXPECT_THAT(b.duration, Optional(8.5));
}

TEST(Benchmarks, OfTensorRtLlmStateHowManyWereInFlight) {
  const ServedBenchmark b = only_of(R"({
    "engine": {"model": "deepseek-ai/DeepSeek-R1"},
    "world_info": {"tp_size": 8, "ep_size": 8, "world_size": 8},
    "request_info": {"num_requests": 300, "avg_num_concurrent_requests": 61.7,
                     "avg_input_length": 1024.0, "avg_output_length": 256.0},
    "performance": {"total_latency_ms": 30000, "avg_request_latency_ms": 6000,
                    "request_throughput_req_s": 10.0, "system_output_throughput_tok_s": 2560.0,
                    "request_latency_percentiles_ms": {"p50": 5900, "p99": 7000}},
    "streaming_metrics": {"avg_ttft_ms": 300, "avg_tpot_ms": 22,
                          "ttft_percentiles": {"p50": 250, "average": 300},
                          "tpot_percentiles": {"p99": 30}}})");
  EXPECT_EQ(b.tool, "trtllm-bench");
  EXPECT_EQ(b.gpus, 8);
  EXPECT_THAT(b.in_flight, Optional(61.7));
  EXPECT_TRUE(b.in_flight_is_mean);
  EXPECT_THAT(b.ttft.mean, about(0.3));
  EXPECT_THAT(b.ttft.p50, about(0.25));
  EXPECT_THAT(b.tpot.mean, about(0.022));
  EXPECT_THAT(b.tpot.p99, about(0.03));
  EXPECT_THAT(b.latency.p50, about(5.9));
  EXPECT_THAT(b.output_rate, Optional(2560.0));
}

TEST(Benchmarks, WithoutStreamingHaveNoTimesOfTokens) {
  const ServedBenchmark b = only_of(
      R"({"completed": 2, "total_input_tokens": 30, "total_output_tokens": 12,
          "output_throughput": 3.5, "mean_ttft_ms": 0, "mean_tpot_ms": 0.0})");
  EXPECT_EQ(b.ttft.mean, std::nullopt);
  EXPECT_EQ(b.tpot.mean, std::nullopt);
}

TEST(Benchmarks, WhatIsNoFigureIsSaidToBeLeftOut) {
  const ServedBenchmark json = only_of(
      R"({"completed": 2, "request_rate": Infinity, "max_concurrency": null, "duration": -4,
          "total_input_tokens": 30, "total_output_tokens": 12, "output_throughput": 80,
          "mean_ttft_ms": NaN, "median_ttft_ms": -3, "p99_ttft_ms": 9, "mean_tpot_ms": 0})");
  EXPECT_EQ(json.ttft.mean, std::nullopt);
  EXPECT_EQ(json.ttft.p50, std::nullopt);
  EXPECT_THAT(json.ttft.p99, about(0.009));
  EXPECT_EQ(json.duration, std::nullopt);
  EXPECT_THAT(json.notes, ElementsAre("'duration' is not a number of 0 or more: left out",
                                      "'mean_ttft_ms' is not a number of 0 or more: left out",
                                      "'median_ttft_ms' is not a number of 0 or more: left out"));
  const ServedBenchmark printed = only_of(R"(== Serving Benchmark Result ==
Successful requests:                     2
Total input tokens:                      30
Total generated tokens:                  12
Output token throughput (tok/s):         80.00
Mean TTFT (ms):                          nan
=====================
)");
  EXPECT_THAT(printed.notes,
              ElementsAre("'Mean TTFT (ms)' is not a number of 0 or more: left out"));
}

TEST(Benchmarks, PrintedOnesSayThatTheirEndIsMissing) {
  const std::string cut = R"(== Serving Benchmark Result ==
Successful requests:                     2
Total input tokens:                      30
Total generated tokens:                  12
Output token throughput (tok/s):         80.00
)";
  EXPECT_THAT(only_of(cut).notes,
              ElementsAre("ends without its last line of '=': figures may be missing"));
  EXPECT_THAT(only_of(cut + "======\n").notes, IsEmpty());
  const auto both = read_served_benchmarks("log", cut + cut + "======\n");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].notes.size() + 2 * both[1].notes.size(), 1u);
}

TEST(Benchmarks, ErrorsSayWhatIsMissing) {
  EXPECT_THAT(error_with(""), HasSubstr("has no result of a benchmark"));
  EXPECT_THAT(error_with("hello\n"), HasSubstr("trtllm-bench --report_json"));
  EXPECT_THAT(error_with("{\"a\": 1}"), HasSubstr("does not say how many requests"));
  EXPECT_THAT(error_with("[1]"), HasSubstr("is not a result"));
  EXPECT_THAT(error_with("{\"completed\": 0}"), HasSubstr("0 requests were answered"));
  EXPECT_THAT(error_with("{\"completed\": 3, \"total_output_tokens\": 9}"),
              HasSubstr("how long prompts are"));
  EXPECT_THAT(error_with("{\"completed\": 3, \"total_input_tokens\": 9}"),
              HasSubstr("how long answers are"));
  const std::string lengths =
      R"("completed": 3, "total_input_tokens": 9, "total_output_tokens": 9)";
  EXPECT_THAT(error_with("{" + lengths + "}"), HasSubstr("neither times nor rates"));
  EXPECT_THAT(error_with("{" + lengths + ", \"ramp_up_strategy\": \"linear\"}"),
              HasSubstr("ramp_up_strategy"));
  EXPECT_THAT(error_with("{" + lengths + ", \"input_lens\": [1, 2], \"output_lens\": [1]}"),
              HasSubstr("2 input_lens and 1 output_lens"));
  EXPECT_THAT(error_with(sglang_line + "{\"completed\": 0}\n"), HasSubstr("result:2"));
}

}  // namespace
}  // namespace moesim
