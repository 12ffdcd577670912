// SPDX-License-Identifier: Apache-2.0
// Planners in other processes, as shell scripts: some answer, some do not.
#include "sim/mechanism/placement/external/planner_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/mechanism/placement/external/packed_loads.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

const SlotTable two_ranks = {{ExpertId(0), ExpertId(1)}, {ExpertId(2), ExpertId(0)}};

/// What is wrong with the program that the shell runs; empty: nothing.
std::string planner_mistake(const std::string& command, double limit = 5) {
  allow_commands();
  return error_of([&] {
    PlannerProcess(command, Seconds(limit)).slots({{"do", "place"}}, two_ranks, 3);
  });
}

std::string answers(const std::string& line) {
  return "while read l; do echo '" + line + "'; done";
}

TEST(PlannerProcess, SlotsByRankOrInOneList) {
  allow_commands();
  const SlotTable expected = {{ExpertId(2), ExpertId(2)}, {ExpertId(1), ExpertId(0)}};
  for (const char* line : {R"({"slots": [[2, 2], [1, 0]]})", "[2, 2, 1, 0]", "[[2, 2], [1, 0]]"}) {
    PlannerProcess process(answers(line), Seconds(5));
    EXPECT_EQ(process.slots({{"do", "place"}}, two_ranks, 3), expected) << line;
    EXPECT_EQ(process.slots({{"do", "place"}}, two_ranks, 3), expected) << "the second time";
  }
  for (const char* line : {"{}", "null", R"({"slots": null})"}) {
    EXPECT_EQ(PlannerProcess(answers(line), Seconds(5)).slots({{"do", "place"}}, two_ranks, 3),
              std::nullopt)
        << line;
  }
}

TEST(PlannerProcess, IsAskedInLinesOfJson) {
  allow_commands();
  PlannerProcess process(
      "while read l; do [ \"$l\" = '{\"do\":\"place\",\"loads\":[1,2]}' ] && "
      "echo '[0,1,2,0]' || echo '{}'; done",
      Seconds(5));
  EXPECT_TRUE(process.slots({{"do", "place"}, {"loads", {1, 2}}}, two_ranks, 3).has_value());
  EXPECT_FALSE(process.slots({{"do", "place"}, {"loads", {2, 1}}}, two_ranks, 3).has_value());
}

TEST(PlannerProcess, BytesFollowTheLineForProgramsThatAskForIt) {
  allow_commands();
  LoadMatrix loads(2, 3);
  loads.at(GpuId(0), ExpertId(1)) = 255;
  loads.at(GpuId(1), ExpertId(2)) = 10;  // a line's end among the bytes
  const auto asked_after = [&](const std::string& greeted) {
    const std::string lists = R"({"do":"place","loads":[[0,255,0],[0,0,10]]})";
    const std::string shape = R"({"do":"place","loads":{"shape":[2,3],"bytes":1}})";
    PlannerProcess process(
        "read l; echo '" + greeted + "'; while read l; do case $l in '" + lists +
            "') echo '[0,1,2,0]';; '" + shape +
            "') [ \"$(head -c 6 | od -An -tu1 | tr -s ' ')\" = ' 0 255 0 0 0 10' ] && "
            "echo '[2,1,0,0]';; esac; done",
        Seconds(5));
    process.first({{"do", "begin"}}, 3, two_ranks);
    std::vector<std::string> kinds;
    for (int turn = 0; turn < 2; ++turn) {
      const auto slots = process.slots({{"do", "place"}}, two_ranks, 3, &loads);
      kinds.emplace_back(slots->front().front() == ExpertId(2) ? "bytes" : "lists");
    }
    EXPECT_EQ(kinds.front(), kinds.back());
    return kinds.front();
  };
  for (const char* line : {"{}", "null", "[0,1,2,0]", R"({"binary":false})", R"({"binary":1})"}) {
    EXPECT_EQ(asked_after(line), "lists") << line;
  }
  EXPECT_EQ(asked_after(R"({"binary":true,"slots":[2,2,1,0]})"), "bytes");
}

TEST(PackedLoads, NumbersHaveTheBytesOfTheLargest) {
  LoadMatrix loads(1, 2);
  const auto has = [&](std::int64_t load, const std::string& shape, const std::string& bytes) {
    loads.at(GpuId(0), ExpertId(0)) = load;
    const PackedLoads made = packed(loads);
    EXPECT_EQ(made.shape, shape);
    EXPECT_EQ(made.bytes, bytes);
  };
  using namespace std::string_literals;
  has(0, R"({"shape":[1,2],"bytes":1})", "\0\0"s);
  has(256, R"({"shape":[1,2],"bytes":2})", "\0\1\0\0"s);
  has(65536, R"({"shape":[1,2],"bytes":4})", "\0\0\1\0\0\0\0\0"s);
  has((std::int64_t{1} << 32) + 3, R"({"shape":[1,2],"bytes":8})",
      "\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0"s);
  EXPECT_EQ(lists_of(loads), "[[4294967299,0]]");
}

TEST(PlannerProcess, BadProgramsEndWithAMessage) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(planner_mistake("sleep 60", 0.2), HasSubstr("did not answer within 0.2 s"));
  EXPECT_THAT(planner_mistake("trap '' TERM; read l; while :; do :; done", 0.2),
              HasSubstr("did not answer within 0.2 s"));
  EXPECT_THAT(planner_mistake("exec >&-; sleep 60"), HasSubstr("closed its standard output"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  const std::string crashed = planner_mistake("echo no such model >&2; exit 3");
  EXPECT_THAT(crashed, HasSubstr("ended with status 3 before it answered"));
  EXPECT_THAT(crashed, HasSubstr("no such model"));
  EXPECT_THAT(planner_mistake("kill -SEGV $$"), HasSubstr("was ended by signal 11"));
  EXPECT_THAT(planner_mistake("exec tr '\\0' x </dev/zero", 60), HasSubstr("more than 64 MB"));
  EXPECT_THAT(planner_mistake("exec yes '{}'"), HasSubstr("more lines than it was asked"));
  EXPECT_THAT(planner_mistake("yes >&2; true", 0.3), HasSubstr("did not answer within"));
  EXPECT_THAT(planner_mistake("no-such-program"), HasSubstr("status 127"));
}

TEST(PlannerProcess, LiesAreFound) {
  EXPECT_THAT(planner_mistake(answers("hello")), HasSubstr("what is not JSON: hello"));
  EXPECT_THAT(planner_mistake(answers("[[0, 1]]")), HasSubstr("slots of 1 ranks, there are 2"));
  EXPECT_THAT(planner_mistake(answers("[[0, 1], [2]]")), HasSubstr("rank 1 has 2 slots, not 1"));
  EXPECT_THAT(planner_mistake(answers("[[0, 1], [2, 3]]")),
              HasSubstr("3 on rank 1 is not an expert"));
  EXPECT_THAT(planner_mistake(answers("[[0, 1], [0, -1]]")), HasSubstr("is not an expert"));
  EXPECT_THAT(planner_mistake(answers("[[0, 1], [0, 1.5]]")), HasSubstr("is not an expert"));
  EXPECT_THAT(planner_mistake(answers("[[0, 1], [0, 1]]")), HasSubstr("expert 2 has no slot"));
  EXPECT_THAT(planner_mistake(answers("[0, 1, 2]")), HasSubstr("rank 1 has 2 slots, not 1"));
  EXPECT_THAT(planner_mistake(answers("7")), HasSubstr("no list of slots"));
}

TEST(PlannerProcess, SharesAndIdsAreChecked) {
  allow_commands();
  const Placement slots(3, two_ranks);
  const auto shares = [&](const std::string& line) {
    return PlannerProcess(answers(line), Seconds(5)).shares({{"do", "split"}}, slots);
  };
  const std::string rank = "[[[0, 2], [3, 1]], [[1, 1]], [[2, 1]]]";
  const Assignment split = shares("{\"shares\": [" + rank + ", " + rank + "]}");
  EXPECT_EQ(split.shares(GpuId(1), ExpertId(0))[1], (Share{SlotId(3), 1}));
  const std::vector<std::string> wrong = {"{}",
                                          "[]",
                                          "{\"shares\": [" + rank + "]}",
                                          "{\"shares\": [[[], [], []], [[], [], []]]}",
                                          "[[[[1, 1]], [[1, 1]], [[2, 1]]], " + rank + "]",
                                          "[[[[9, 1]], [[1, 1]], [[2, 1]]], " + rank + "]"};
  for (const std::string& line : wrong) {
    EXPECT_THROW(shares(line), Error) << line;
  }
  const auto ids = [&](const std::string& line) {
    return PlannerProcess(answers(line), Seconds(5)).ids({{"do", "route"}}, 2, 2, 3);
  };
  EXPECT_EQ(ids("{\"ids\": [[0, 1], [2, -1]]}"), (std::vector<int>{0, 1, 2, -1}));
  for (const char* line : {"{\"ids\": [[0, 1]]}", "[[0, 1], [2]]", "[[0, 1], [2, 3]]",
                           "[[0, 1], [2, 2]]", "[[0, 1], [2, null]]"}) {
    EXPECT_THROW(ids(line), Error) << line;
  }
}

}  // namespace
}  // namespace moesim
