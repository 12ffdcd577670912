// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/base/temporary_folder.h"
#include "sim/serving/requests/request_generator.h"
#include "sim/serving/requests/request_log_reader.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RequestLog log_of(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/log";
  write_file(path, text);
  return read_request_log(path);
}

std::string log_error(const std::string& text) {
  return error_of([&] { log_of(text); });
}

TEST(RequestLogs, MillisecondsInPlaceOfSecondsAreNamed) {
  EXPECT_THAT(log_error("arrival,input,output\n1732000000000,9,9\n"),
              HasSubstr("hint: times are in seconds, of Mooncake's `timestamp` in milliseconds"));
  EXPECT_EQ(log_of("arrival,input,output\n1732000000,9,9\n").requests.size(), 1U);
}

TEST(RequestLogs, MooncakesLines) {
  const RequestLog log = log_of(
      R"({"timestamp": 500, "input_length": 1030, "output_length": 5, "hash_ids": [7, 8, 9]})"
      "\n\n"
      R"({"timestamp": 2000, "input_length": 3, "output_length": 1, "prompt": "left out"})"
      "\n");
  EXPECT_THAT(log.requests,
              ElementsAre(ServingRequest{Seconds(0), 1030, 5}, ServingRequest{Seconds(1.5), 3, 1}));
  EXPECT_EQ(log.prefix_tokens, 512);
  EXPECT_THAT(log.prefixes[0], ElementsAre(7, 8, 9));
  EXPECT_TRUE(log.prefixes[1].empty());
}

TEST(RequestLogs, TablesByTheNamesOfTheirColumns) {
  const RequestLog log =
      log_of("num_decode_tokens,arrived_at,user,num_prefill_tokens\n4,1.0,a,10\n8,1.25,b,20\r\n");
  EXPECT_THAT(log.requests,
              ElementsAre(ServingRequest{Seconds(0), 10, 4}, ServingRequest{Seconds(0.25), 20, 8}));
  EXPECT_EQ(log_of("arrival, input, output\n0,1,2\n").requests.size(), 1U);
  EXPECT_THAT(log_of(",arrival , input  ,output\n7,0 ,12 ,34  \n").requests,
              ElementsAre(ServingRequest{Seconds(0), 12, 34}));
}

TEST(RequestLogs, TablesOfPublishedTraces) {
  const auto expected =
      ElementsAre(ServingRequest{Seconds(0), 374, 44}, ServingRequest{Seconds(0.25), 396, 109});
  for (const char* const table :
       {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.8750000,374,44\n"
        "2023-11-17 00:00:00.1250000,396,109\n",  // Azure, 2023
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29T00:00:00.500000+00:00,374,44\n"
        "2024-02-29 02:00:00.750000+02:00,396,109\n",  // as of 2024
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,374,44,418,API log\n5.25,GPT-4,396,109,505,API log\n",  // BurstGPT
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,"
        "token_size\n0,2,0,1.0,1,374,44\n1,2,0,1.25,1,396,109\n"}) {  // Splitwise
    EXPECT_THAT(log_of(table).requests, expected) << table;
  }
}

TEST(RequestLogs, TimesThatAreNone) {
  for (const char* const time :
       {"2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-11-16 24:00:00", "2023-11-16 00:60:00",
        "2023-11-16 00:00:61", "2023-11-16 00:00", "2023-11-16", "2023-11-16 00:00:00+2",
        "2023-11-16 00:00:00 UTC", "noon", ""}) {
    EXPECT_THAT(log_error(std::string("arrival,input,output\n") + time + ",1,1\n"),
                HasSubstr(":2: error: column 1 is not a number"))
        << time;
  }
  const auto second = [](const std::string& time) {
    return log_of("arrival,input,output\n1970-01-01 00:00:00,1,1\n" + time + ",1,1\n")
        .requests.back()
        .arrival.value;
  };
  EXPECT_EQ(second("1970-01-02T01:01:01.5Z"), 86400 + 3661.5);
  EXPECT_EQ(second("1970-01-01 00:00:00-01:30"), 5400);
}

TEST(RequestLogs, LinesOfOtherServices) {
  EXPECT_THAT(log_of(R"({"arrival_time": 1.5, "prompt_tokens": 10, "completion_tokens": 4})"
                     "\n"
                     R"({"arrival_time": 2, "prompt_tokens": 20, "completion_tokens": 8})")
                  .requests,
              ElementsAre(ServingRequest{Seconds(0), 10, 4}, ServingRequest{Seconds(0.5), 20, 8}));
  const RequestLog log =
      log_of(R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 20, )"
             R"("output_length": 4, "type": "text", "turn": 1, "hash_ids": [5, 6]})"
             "\n"
             R"({"chat_id": 2, "parent_chat_id": 1, "timestamp": 61.5, "input_length": 3, )"
             R"("output_length": 1, "type": "text", "turn": 2, "hash_ids": [7]})");
  EXPECT_THAT(log.requests,
              ElementsAre(ServingRequest{Seconds(0), 20, 4}, ServingRequest{Seconds(60), 3, 1}));
  EXPECT_EQ(log.prefix_tokens, 16);
}

TEST(RequestLogs, TheUnitOfATimeIsThatOfItsName) {
  const auto second = [](const std::string& name, const std::string& more = "") {
    const auto line = [&](const char* time) {
      return "{\"" + name + "\": " + time + more + ", \"input\": 2, \"output\": 2}\n";
    };
    return log_of(line("0") + line("500")).requests[1].arrival;
  };
  EXPECT_EQ(second("timestamp"), Seconds(0.5));
  EXPECT_EQ(second("Timestamp"), Seconds(0.5));
  EXPECT_EQ(second("arrival"), Seconds(500));
  EXPECT_EQ(second("TimeStamp", ", \"Parent-Chat-ID\": -1"), Seconds(500));
  EXPECT_THAT(log_error(R"({"timestamp": 5, "arrival": 1, "input": 2, "output": 2})"),
              AllOf(HasSubstr(":1: error: has two times, 'arrival' and 'timestamp'\n"),
                    HasSubstr("hint: leave one of them out")));
  EXPECT_THAT(log_error(R"({"timestamp": 5, "Timestamp": 5, "input": 2, "output": 2})"),
              HasSubstr("has both 'timestamp' and 'Timestamp'"));
  EXPECT_THAT(log_of(R"({"arrival": 0, "input": 512, "output": 1, "Hash_IDs": [7]})").prefixes[0],
              ElementsAre(7));
}

TEST(RequestLogs, FieldsMayBeQuoted) {
  EXPECT_THAT(log_of("\"arrival\",\"input\",\"text\",\"output\"\n"
                     "\"0\",\"12\",\"a, \"\"b\"\"\",\"34\"\n")
                  .requests,
              ElementsAre(ServingRequest{Seconds(0), 12, 34}));
}

TEST(RequestLogs, WhatIsPackedIsReadAndOnlyAsMuchAsIsAskedFor) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/log.gz";
  write_file(path, gzipped("arrival,input,output\n0,1,2\n1,3,4\nbroken\n"));
  EXPECT_EQ(read_request_log(path, 2).requests.size(), 2U);
  EXPECT_THROW(read_request_log(path), Error);
}

TEST(RequestLogs, MistakesHaveTheirLine) {
  const std::string good = R"({"timestamp": 5, "input_length": 2, "output_length": 2})";
  EXPECT_THAT(log_error(good + "\n{\"timestamp\": 6,\n"), HasSubstr(":2:"));
  EXPECT_THAT(log_error(good + "\n" + R"({"timestamp": 4, "input_length": 2, "output_length": 2})"),
              ::testing::AllOf(HasSubstr(":2:"), HasSubstr("before")));
  EXPECT_THAT(log_error(R"({"timestamp": 4, "input_length": 0, "output_length": 2})"),
              ::testing::AllOf(HasSubstr(":1:"), HasSubstr("input length")));
  EXPECT_THAT(log_error("arrival,input,output\n0,1,1\n0,1,0\n"),
              ::testing::AllOf(HasSubstr(":3:"), HasSubstr("output length")));
  EXPECT_THAT(log_error("arrival,input\n0,1\n"), HasSubstr("no column output"));
  EXPECT_THAT(log_error("arrival,input,output\n0,1\n"), HasSubstr(":2:"));
  EXPECT_THAT(log_error(R"({"timestamp": 4, "output_length": 2})"), HasSubstr("no input_length"));
  EXPECT_THAT(
      log_error(R"({"timestamp": 4, "input_length": 5, "output_length": 2, "hash_ids": [1, 2]})"),
      HasSubstr("2 hash_ids"));
  EXPECT_THAT(log_error("\n"), HasSubstr("no requests"));
}

TEST(RequestLogs, AMissingColumnNamesThoseThatAreThere) {
  EXPECT_THAT(log_error("arrival;input;output\n0;1;1\n"),
              ::testing::AllOf(HasSubstr("names no column arrival; it has arrival, input, output "
                                         "between ';'\n"),
                               HasSubstr("hint: between commas, one of arrival, arrivedat, ")));
  EXPECT_THAT(
      log_error("arrival,context,output\n0,1,1\n"),
      ::testing::AllOf(HasSubstr("names no column input; it has arrival, context, output\n"),
                       HasSubstr("one of input, numprefilltokens, contexttokens, ")));
  EXPECT_THAT(log_error("tell me a secret\n"), ::testing::Not(HasSubstr("secret")));
}

TEST(RequestLogs, MayBeginWithAMark) {
  EXPECT_EQ(log_of("\xef\xbb\xbf"
                   "arrival,input,output\n0,1,2\n")
                .requests.size(),
            1U);
  EXPECT_EQ(log_of("\xef\xbb\xbf"
                   R"({"timestamp": 5, "input_length": 2, "output_length": 2})")
                .requests.size(),
            1U);
  EXPECT_THAT(log_error(std::string("\xff\xfe"
                                    "a\0r\0",
                                    6)),
              HasSubstr("this is UTF-16 text"));
}

TEST(RequestLogs, TimesAreNotBelowZero) {
  EXPECT_THAT(log_error(R"({"timestamp": -1, "input_length": 3, "output_length": 1})"
                        "\n"),
              HasSubstr("log:1: error: the time is not a number of 0 or more"));
}

TEST(RequestLogs, LengthsAreNoTimes) {
  EXPECT_EQ(log_of("arrival,input,output\n0,1000000000,1\n").requests[0].input, 1'000'000'000);
  EXPECT_THAT(log_error("arrival,input,output\n0,1000000001,1\n"), HasSubstr("the input length"));
}

TEST(RequestLogs, ColumnsAreNumbers) {
  EXPECT_THAT(log_error("arrival,input,output\n0,1,2\n1,2x,3\n"),
              HasSubstr("log:3: error: column 2 is not a number"));
}

TEST(RequestLogs, WhatAPromptSaysIsNotPrinted) {
  const std::string secret = R"({"timestamp": -1, "prompt": "secret", "input_length": 1, )"
                             R"("output_length": 1})";
  EXPECT_THAT(log_error(secret), ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(log_error("arrival,input,output,text\nx,1,1,secret\n"),
              ::testing::Not(HasSubstr("secret")));
}

TEST(RequestLogs, RecordedOnes) {
  const std::string folder = MOESIM_SHARED "/traces/requests/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no recorded logs next to the project";
  const RequestLog chat = read_request_log(folder + "mooncake_conversation.jsonl.gz");
  EXPECT_EQ(chat.requests.size(), 12031U);
  EXPECT_EQ(chat.requests[1], (ServingRequest{Seconds(0), 7322, 490}));
  EXPECT_EQ(read_request_log(folder + "splitwise_code.csv.gz").requests.size(), 8819U);
  EXPECT_EQ(read_request_log(folder + "splitwise_conv.csv.gz").requests.size(), 19366U);
}

struct Moments {
  double mean = 0, deviation = 0;
};

template <class Value>
Moments moments(const std::vector<ServingRequest>& requests, const Value& value) {
  double sum = 0, squares = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    const double x = value(requests[i - 1], requests[i]);
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(requests.size() - 1);
  return {sum / count, std::sqrt(squares / count - sum * sum / count / count)};
}

Moments gaps(ArrivalLaw law) {
  RequestDraw draw;
  draw.count = 40000;
  draw.arrivals = law;
  return moments(draw_requests(draw).requests,
                 [](const auto& a, const auto& b) { return (b.arrival - a.arrival).value; });
}

TEST(DrawnRequests, GapsHaveTheMeanAndVariationOfTheirLaw) {
  // Sampling errors of 40,000 draws: 0.5 % of the mean times the variation; five of them.
  const Moments poisson = gaps({ArrivalLaw::Kind::poisson, 4, 1});
  EXPECT_NEAR(poisson.mean, 0.25, 0.025 * 0.25);
  EXPECT_NEAR(poisson.deviation, 0.25, 0.04 * 0.25);
  for (const double variation : {0.5, 2.0}) {
    const Moments gamma = gaps({ArrivalLaw::Kind::gamma, 4, variation});
    EXPECT_NEAR(gamma.mean, 0.25, 0.025 * variation * 0.25);
    EXPECT_NEAR(gamma.deviation, variation * 0.25, 0.08 * variation * 0.25);
  }
  const Moments even = gaps({ArrivalLaw::Kind::even, 4, 1});
  EXPECT_NEAR(even.mean, 0.25, 1e-9);
  EXPECT_NEAR(even.deviation, 0, 1e-4);
}

TEST(DrawnRequests, LengthsHaveTheirLaw) {
  RequestDraw draw;
  draw.count = 40000;
  draw.input = {LengthLaw::Kind::uniform, 1000, 200};
  draw.output = {LengthLaw::Kind::lognormal, 300, 300};
  const auto requests = draw_requests(draw).requests;
  const Moments input =
      moments(requests, [](const auto&, const auto& b) { return double(b.input); });
  EXPECT_NEAR(input.mean, 1000, 3);
  EXPECT_NEAR(input.deviation, 200 / std::sqrt(3.0), 3);
  const Moments output =
      moments(requests, [](const auto&, const auto& b) { return double(b.output); });
  EXPECT_NEAR(output.mean, 300, 7.5);
  EXPECT_NEAR(output.deviation, 300, 30);
}

TEST(DrawnRequests, OneLawLeavesTheOthersAsTheyWere) {
  RequestDraw draw;
  draw.count = 50;
  draw.arrivals = {ArrivalLaw::Kind::poisson, 4, 1};
  draw.input = {LengthLaw::Kind::uniform, 100, 50};
  const auto before = draw_requests(draw);
  EXPECT_EQ(before.requests, draw_requests(draw).requests);
  EXPECT_EQ(before.requests[0].arrival, Seconds(0));
  draw.output = {LengthLaw::Kind::uniform, 100, 50};
  const auto after = draw_requests(draw);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(after.requests[i].input, before.requests[i].input);
    EXPECT_EQ(after.requests[i].arrival, before.requests[i].arrival);
  }
  draw.seed = 1;
  EXPECT_NE(after.requests, draw_requests(draw).requests);
}

TEST(DrawnRequests, PromptsThatAreLongEnoughShareTheirBeginning) {
  RequestDraw draw;
  draw.count = 20;
  draw.input = {LengthLaw::Kind::uniform, 100, 90};
  draw.shared_prefix = 96;
  const RequestLog log = draw_requests(draw);
  EXPECT_EQ(log.prefix_tokens, 96);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(log.prefixes[i].size(), log.requests[i].input >= 96 ? 1U : 0U);
  }
  draw.shared_prefix = 1;
  EXPECT_EQ(draw_requests(draw).prefix_tokens, 1);
  draw.shared_prefix = 0;
  EXPECT_TRUE(draw_requests(draw).prefixes.empty());
}

}  // namespace
}  // namespace moesim
