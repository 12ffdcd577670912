// SPDX-License-Identifier: Apache-2.0
// moesim place: one planner's answer as JSON, and what it says of a file that is no question.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

class PlaceCommand : public testing::Test {
 protected:
  Outcome place(const std::string& policy, const std::string& loads) const {
    std::ofstream(scratch_.file("loads.json")) << loads;
    return run_moesim({"place", "--policy", policy, "--loads", scratch_.file("loads.json")});
  }
  Json placed(const std::string& policy, const std::string& loads) const {
    const Outcome outcome = place(policy, loads);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json();
  }
  const Scratch scratch_;
};

/// Two ranks with 4 tokens each for expert 0.
const std::string two_ranks =
    R"("devices": 2, "devices_per_node": 2, "slots_per_device": 1, "token_counts": [[4, 0], [4, 0]])";

TEST_F(PlaceCommand, LlepCutsAboveItsCapacity) {
  EXPECT_EQ(place("llep", R"({"gpus": 2, "alpha": 1, "least_chunk": 1,
                              "expert_load": [6, 1, 1, 0]})")
                .out,
            R"({"format":"moesim-placement","format_version":1,"policy":"llep","capacity":4,)"
            R"("chunks_per_expert":[[{"gpu":0,"first":0,"last":3},{"gpu":1,"first":3,"last":6}],)"
            R"([{"gpu":0,"first":0,"last":1}],[{"gpu":1,"first":0,"last":1}],[]],)"
            R"("gpu_load":[4,4]})"
            "\n");
  EXPECT_EQ(placed("llep", R"({"gpus": 2, "alpha": 2, "least_chunk": 1,
                               "expert_load": [8, 0, 0, 0]})")["capacity"],
            8);
}

TEST_F(PlaceCommand, EplbCopiesTheLoadedExpertOfEachLayer) {
  const Json answer = placed("eplb", R"({"input": {"physical_slots": 4, "expert_groups": 1,
      "nodes": 1, "gpus": 2, "expert_load_per_layer": [[6, 2, 1], [1, 2, 6]]}})");
  EXPECT_EQ(answer["policy"], "eplb");
  EXPECT_EQ(answer["replica_count_per_layer"], (Json{{2, 1, 1}, {1, 1, 2}}));
  EXPECT_EQ(answer["physical_to_logical_per_layer"][0], (Json{0, 1, 0, 2}));
  EXPECT_EQ(answer["logical_to_physical_per_layer"][0], Json::parse("[[0, 2], [1], [3]]"));
  EXPECT_EQ(answer["logical_to_physical_per_layer"].size(), 2u);
}

TEST_F(PlaceCommand, LaerTriesAnEvenAndALoadedCount) {
  const auto names = [&](const std::string& policy) {
    std::vector<std::string> found;
    const Json answer = placed(policy, "{" + two_ranks + "}");
    for (const Json& c : answer["candidates"]) found.push_back(c["name"]);
    EXPECT_EQ(answer["device_slots"], Json::parse("[[0], [1]]")) << "a slot for each expert";
    EXPECT_EQ(answer["replicas"], (Json{1, 1}));
    EXPECT_EQ(answer["cost_s"], answer["candidates"][0]["cost_s"]);
    EXPECT_EQ(answer["chosen"], found.at(0));
    return found;
  };
  EXPECT_EQ(names("laer"), (std::vector<std::string>{"even", "pq"}));
  EXPECT_EQ(names("laer-even"), std::vector<std::string>{"even"});
  EXPECT_EQ(names("laer-uneven"), std::vector<std::string>{"pq"});
}

// Rank 1 sends its four token-slots to expert 0 on rank 0, which computes all eight.
TEST_F(PlaceCommand, LaerCostsWhatItsParametersSay) {
  const auto cost = [&](const std::string& more) {
    return placed("laer", "{" + two_ranks + more + "}")["cost_s"].get<double>();
  };
  const std::string free = R"(, "bw_same_device_GB_per_s": 1e30, "bw_intra_node_GB_per_s": 1e30,
      "bw_inter_node_GB_per_s": 1e30, "v_comp_ms_per_token_slot": )";
  EXPECT_NEAR(cost(free + "0"), 0, 1e-15);
  // Once forward, twice as long backward, and once more forward if activations are not kept.
  EXPECT_NEAR(cost(free + "1"), 8e-3 * (1 + 2 + 1), 1e-9);
  EXPECT_NEAR(cost(free + R"(1, "activation_checkpointing": true)"), 8e-3 * (1 + 2 + 1), 1e-9);
  EXPECT_NEAR(cost(free + R"(1, "activation_checkpointing": false)"), 8e-3 * (1 + 2), 1e-9);
  const std::string sent = R"(, "v_comp_ms_per_token_slot": 0, "token_bytes": 1000000)";
  const double slow = cost(sent + R"(, "bw_intra_node_GB_per_s": 1)");
  EXPECT_GT(slow, 2 * cost(sent + R"(, "bw_intra_node_GB_per_s": 4)"));
  EXPECT_EQ(slow, cost(sent + R"(, "bw_intra_node_GB_per_s": 1, "bw_inter_node_GB_per_s": 9)"))
      << "there is one node";
}

TEST_F(PlaceCommand, ReadsStandardInput) {
  const std::string loads = R"({"gpus": 2, "expert_load": [6, 1, 1, 0]})";
  const std::string named = place("llep", loads).out;
  EXPECT_THAT(named, HasSubstr("\"policy\":\"llep\""));
  const std::string line = fmt::format("{} place --policy llep --loads - < {}",
                                       moesim_program().string(), scratch_.file("loads.json"));
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  std::string piped;
  for (int c = 0; (c = std::fgetc(pipe.get())) != EOF;) piped += static_cast<char>(c);
  EXPECT_EQ(piped, named);
}

TEST_F(PlaceCommand, SaysWhatIsWrongWithItsInput) {
  const std::string sizes = R"({"devices": 2, "devices_per_node": 2, "slots_per_device": 1, )";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {sizes + R"("token_counts": [[4, 0], [4]]})", "rows of token_counts differ in length\n"},
      {sizes + R"("token_counts": [[4, 0], [4, 0, 0]]})",
       "rows of token_counts differ in length\n"},
      {sizes + R"("token_counts": [[4, 0], [0, -1]]})", "token_counts has a count below 0\n"},
      {sizes + R"("token_counts": [[4, 0]]})", "token_counts has 1 row for 2 devices\n"},
      {sizes + R"("token_counts": []})", "token_counts has 0 rows for 2 devices\n"},
      {R"({"devices": 2})", "is not a whole input of 'laer'\nhint: docs/placement.md shows one\n"},
      {R"([1])", "is not a whole input of 'laer'\n"}};
  for (const auto& [input, message] : cases) {
    const Outcome outcome = place("laer", input);
    EXPECT_EQ(outcome.code, 2) << input;
    EXPECT_THAT(outcome.err, HasSubstr("loads.json: error: " + message)) << input;
  }
  const std::string eplb = R"("nodes": 1, "gpus": 2, "expert_groups": 1, )";
  const std::string laer = R"("devices": 2, "devices_per_node": 2, "token_counts": [[1], [1]], )";
  const std::vector<std::array<std::string, 3>> loads = {
      {"eplb", eplb + R"("physical_slots": 2, "expert_load_per_layer": [[1, -0.5]])",
       "expert_load_per_layer has a load below 0\n"},
      {"llep", R"("gpus": 2, "expert_load": [3, -1])", "expert_load has a load below 0\n"},
      {"eplb", eplb + R"("physical_slots": 1000000000, "expert_load_per_layer": [[1, 1]])",
       "'physical_slots' is 1000000000; it is a whole number from 1 to 1048576\n"},
      {"eplb", eplb + R"("physical_slots": 4294967300, "expert_load_per_layer": [[1, 1]])",
       "'physical_slots' is 4294967300; it is a whole number from 1 to 1048576\n"},
      {"eplb", eplb + R"("physical_slots": 1048576, "expert_load_per_layer": [[1], [1], [1]])",
       "3 layers of 1048576 slots each: at most 2097152 slots are possible\n"},
      {"laer", laer + R"("slots_per_device": 1000000)",
       "2 devices of 1000000 slots each: at most 1048576 slots are possible\n"},
      {"llep", R"("gpus": 1.5, "expert_load": [3, 1])",
       "'gpus' is 1.5; it is a whole number from 1 to 1048576\n"}};
  for (const auto& [policy, input, message] : loads) {
    const Outcome outcome = place(policy, "{" + input + "}");
    EXPECT_EQ(outcome.code, 2) << input;
    EXPECT_THAT(outcome.err, HasSubstr("loads.json: error: " + message)) << input;
  }
  EXPECT_THAT(place("laer", "{\n\"x\": ]").err, HasSubstr("loads.json:2:6: error: not JSON: "));
  EXPECT_THAT(place("lear", "{}").err, HasSubstr("--policy"));
}

}  // namespace
}  // namespace moesim
