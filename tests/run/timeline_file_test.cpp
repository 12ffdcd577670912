// SPDX-License-Identifier: Apache-2.0
// Which ranks a timeline shows, and the memory in it.
#include "sim/run/timeline_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/units.h"
#include "sim/run/simulate.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using Json = nlohmann::ordered_json;

std::vector<std::int64_t> ranks_of(const std::string& text, int gpus,
                                   const std::vector<int>& stage_of = {}) {
  std::vector<std::int64_t> ranks;
  for (const GpuId gpu : chosen_ranks({text, 1}, gpus, stage_of)) ranks.push_back(gpu.value);
  return ranks;
}

TEST(TimelineRanks, AreListedOnesInOrderAndOnce) {
  EXPECT_THAT(ranks_of("0,8-10", 11), ElementsAre(0, 8, 9, 10));
  EXPECT_THAT(ranks_of("5,1-2,2", 11), ElementsAre(1, 2, 5));
  EXPECT_THAT(ranks_of("all", 3), ElementsAre(0, 1, 2));
}

TEST(TimelineRanks, AreTheFirstOfEveryStageUnlessTheyAreListed) {
  EXPECT_THAT(ranks_of("", 9), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ranks_of("", 8, {0, 0, 0, 0, 1, 1, 2, 2}), ElementsAre(0, 1, 2, 4, 5, 6, 7));
  // Ten stages of one GPU: those next to 0, 9/7, 18/7 ... from below.
  EXPECT_THAT(ranks_of("", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
              ElementsAre(0, 1, 2, 3, 5, 6, 7, 9));
}

TEST(TimelineRanks, ThatAreNoneAreAnError) {
  for (const char* text : {"x", "1x", "-1", "1-", "3-2", "1,,2", "1,"}) {
    EXPECT_THAT(error_of([&] { ranks_of(text, 8); }), testing::HasSubstr("names no ranks")) << text;
  }
  EXPECT_THAT(error_of([&] { ranks_of("6-8", 8); }),
              testing::AllOf(testing::HasSubstr("there is no rank 8"),
                             testing::HasSubstr("the cluster has ranks 0 to 7")));
}

/// Two stages of four GPUs and four microbatches, in three kinds of turns.
Scenario split_backward() {
  return read_scenario("", {{"topology", "h100-rail", "t"},
                            {"model", "gpt-oss-20b", "m"},
                            {"trace", "tiny-moe-train", "r"},
                            {"policy", "alltoall", "p"},
                            {"parallel", "{pp: 2, ep: 4}", "g"},
                            {"pipeline", "zb1p", "l"},
                            {"routing", "recorded", "o"},
                            {"batch", "{global: 16, micro: 1, sequence: 512}", "b"},
                            {"set", "topology.nodes=1", "n"}});
}

/// The bytes of the fullest GPU in each turn but those of only weight gradients, and the update.
std::vector<std::int64_t> bytes_by_turn(const MemoryCurve& curve) {
  std::vector<std::int64_t> bytes;
  for (std::size_t t = 0; t < curve.turns.size(); ++t) {
    if (curve.turns[t] == "update" || curve.turns[t].starts_with("weight gradient")) continue;
    bytes.push_back(std::accumulate(curve.bytes[t].begin(), curve.bytes[t].end(), std::int64_t{0}));
  }
  return bytes;
}

TEST(Timelines, HaveTheMemoryOfTheFullestGpuTurnByTurn) {
  const Scenario scenario = split_backward();
  const Inputs inputs = open_inputs(scenario);
  const ScratchFolder folder;
  const TimelineRequest request{folder / "t.json", {}, "1", false};
  simulate(scenario, inputs, {.workers = 0, .timeline = request});
  const auto pictured = simulate(scenario, inputs, {.workers = 0, .pictures = true}).cases;
  const MemoryCurve& curve = pictured.back().pictures.front().memory.at(0);
  std::map<double, std::int64_t> held;  // by time
  const Json file = Json::parse(read_bytes(request.path));
  for (const Json& event : file.at("traceEvents")) {
    if (event.value("name", "") != "memory [B]") continue;
    EXPECT_EQ(event.at("args").size(), 9U);
    std::int64_t& sum = held[event.at("ts").get<double>()];
    EXPECT_EQ(sum, 0);
    for (const Json& part : event.at("args")) sum += part.get<std::int64_t>();
  }
  std::vector<std::int64_t> in_order;
  for (const auto& [time, bytes] : held) in_order.push_back(bytes);
  EXPECT_EQ(in_order, bytes_by_turn(curve));
  EXPECT_EQ(in_order.size(), 8U);
  for (const auto& bytes : curve.bytes) EXPECT_EQ(bytes.size(), curve.parts.size());
}

TEST(Timelines, SayWhatTheyShowAndHowManyEvents) {
  const Scenario scenario = split_backward();
  const Inputs inputs = open_inputs(scenario);
  const ScratchFolder folder;
  testing::internal::CaptureStderr();
  simulate(scenario, inputs, {.workers = 0, .timeline = {{folder / "t.json", {"0-1", 2}, "1"}}});
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string text = read_bytes(folder / "t.json");
  EXPECT_THAT(text, testing::HasSubstr("ranks 0-1; the first 2 steps"));
  const std::size_t events = Json::parse(text).at("traceEvents").size();
  EXPECT_THAT(said, testing::HasSubstr(fmt::format("ranks 0-1; the first 2 steps; {} events, {};",
                                                   events, to_string(Bytes(std::ssize(text))))));
}

TEST(Timelines, NumberTheProcessesOfAllCases) {
  const ScratchFolder folder;
  const Scenario scenario = split_backward();
  const TimelineRequest request{folder / "t.json", {}, "1", false};
  const auto timeline = open_timeline(request, open_inputs(scenario), 3, 2);
  EXPECT_EQ(timeline->named_case(5, "last", {}).first_process, 5 * 9) << "8 GPUs and the cluster";
  EXPECT_EQ(timeline->named_case(5, "last", {}).name, "last");
  const auto alone = open_timeline(request, open_inputs(scenario), 1, 1);
  EXPECT_EQ(alone->named_case(0, "only", {}).name, "");
  const auto both = open_timeline(request, open_inputs(scenario), 2, 2);
  EXPECT_EQ(both->named_case(0, "first", {}).name, "first");
}

}  // namespace
}  // namespace moesim
