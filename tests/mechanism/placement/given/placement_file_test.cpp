// SPDX-License-Identifier: Apache-2.0
// Placement files of engines, small enough to check by eye: 4 experts on 2 ranks.
#include "sim/mechanism/placement/given/placement_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using Ranks = std::vector<std::vector<int>>;

/// Four experts in layers 1, 2 and 3 of four; layer 0 is dense.
MoeModel four_experts() {
  MoeModel model;
  model.name = "four";
  model.layers = 4;
  model.moe_layers = {1, 2, 3};
  model.experts = 4;
  return model;
}

/// What the two ranks hold in one layer.
Ranks given_slots(const std::string& text, int layer = 2) {
  const auto tables = slots_in(parse_placement(text, "f"), four_experts(), {1, 2, 3}, 2).tables;
  Ranks ranks;
  for (const auto& rank : tables[static_cast<std::size_t>(layer - 1)]) {
    auto& row = ranks.emplace_back();
    for (const ExpertId e : rank) row.push_back(e.value);
  }
  return ranks;
}

std::string given_mistake(const std::string& text) {
  return error_of([&] { slots_in(parse_placement(text, "f"), four_experts(), {1, 2, 3}, 2); });
}

const Ranks replicated = {{3, 0, 1}, {2, 3, 3}};

TEST(PlacementFile, FormsOfEnginesSayTheSame) {
  for (const char* text : {
           "initial_global_assignments: {1: [0, 1, 2, 3, 0, 1], 2: [3, 0, 1, 2, 3, 3], "
           "3: [0, 1, 2, 3, 0, 1]}\nnum_slots: 6\nlayer_updates_per_iter: 0\n",
           "moe_config: {backend: WIDEEP, load_balancer: {num_slots: 6, "
           "initial_global_assignments: {1: [0, 1, 2, 3, 0, 1], 2: [3, 0, 1, 2, 3, 3], "
           "3: [0, 1, 2, 3, 0, 1]}}}",
           R"({"physical_to_logical_map": [[0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 0, 1],
               [3, 0, 1, 2, 3, 3], [0, 1, 2, 3, 0, 1]]})",
           R"({"layers": [1, 2, 3], "phy2log": [[0, 1, 2, 3, 0, 1], [3, 0, 1, 2, 3, 3],
               [0, 1, 2, 3, 0, 1]], "logcnt": []})",
           R"({"phy2log": [[0, 1, 2, 3, 0, 1], [3, 0, 1, 2, 3, 3], [0, 1, 2, 3, 0, 1]]})",
           R"({"log2phy": [[[1, -1, -1], [2, -1, -1], [3, -1, -1], [0, 4, 5]]]})",
           "[3, 0, 1, 2, 3, 3]",
           "3 0 1 2 3 3\n",
           "3, 0, 1, 2, 3, 3\r\n",
           "[[3, 0, 1], [2, 3, 3]]",
           "3 0 1\n2 3 3\n",
           "{rank_to_experts: [[3, 0, 1], [2, 3, 3]]}",
           "{rank0: [3, 0, 1], rank1: [2, 3, 3]}",
           "{0: [3, 0, 1], 1: [2, 3, 3]}",
           "{1: [0, 1, 2, 3], 2: [3, 0, 1, 2, 3, 3], 3: [1, 2, 3, 0]}",
           "{layer_1: [0, 1, 2, 3], layer_2: [[3, 0, 1], [2, 3, 3]], layer_3: [1, 2, 3, 0]}",
           "[[[0, 1], [2, 3]], [[3, 0, 1], [2, 3, 3]], [[0, 1], [2, 3]]]",
           R"({"layers": {"1": [0, 1, 2, 3], "2": [3, 0, 1, 2, 3, 3], "3": [1, 2, 3, 0]}})",
           R"({"model.layers.1.mlp": [0, 1, 2, 3], "model.layers.2.mlp": [3, 0, 1, 2, 3, 3],
               "model.layers.3.mlp": [1, 2, 3, 0]})",
           R"({"moe_layer_count": 1, "layer_list": [{"layer_id": 0, "device_count": 2,
               "device_list": [{"device_id": 1, "device_expert": [2, 3, 3]},
                               {"device_id": 0, "device_expert": [3, 0, 1]}]}]})",
       }) {
    EXPECT_EQ(given_slots(text), replicated) << text;
  }
}

/// Four experts in layers 2, 3 and 4 of five, and in one of MTP.
MoeModel with_mtp() {
  MoeModel model = four_experts();
  model.layers = 5;
  model.moe_layers = {2, 3, 4};
  model.mtp = 1;
  return model;
}

/// The first expert of every layer and, behind it, the layers that are left out.
std::vector<int> first_experts(const std::string& text, const std::vector<int>& layers) {
  const GivenLayers given = slots_in(parse_placement(text, "f"), with_mtp(), layers, 2);
  std::vector<int> firsts;
  for (const SlotTable& table : given.tables) firsts.push_back(table[0][0].value);
  firsts.insert(firsts.end(), given.left_out.begin(), given.left_out.end());
  return firsts;
}

/// So many rows, the first slots of which hold experts 1, 2, 3, 0, 1, ... in turn.
std::string rows_in_turn(int rows) {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    text += fmt::format("{}[{}, {}, {}, {}]", row == 0 ? "" : ", ", (row + 1) % 4, (row + 2) % 4,
                        (row + 3) % 4, row % 4);
  }
  return "{phy2log: [" + text + "]}";
}

TEST(PlacementFile, LayersOfMtpMayBeLeftOut) {
  const std::vector<int> all = {2, 3, 4, 5}, last_stage = {4, 5};
  EXPECT_EQ(first_experts(rows_in_turn(3), all), std::vector({1, 2, 3, 0, 5})) << "MoE layers";
  EXPECT_EQ(first_experts(rows_in_turn(3), last_stage), std::vector({3, 0, 5}));
  EXPECT_EQ(first_experts(rows_in_turn(4), all), std::vector({1, 2, 3, 0})) << "and of MTP";
  EXPECT_EQ(first_experts(rows_in_turn(4), last_stage), std::vector({3, 0}));
  EXPECT_EQ(first_experts(rows_in_turn(5), all), std::vector({3, 0, 1, 0, 5})) << "all layers";
  EXPECT_EQ(first_experts(rows_in_turn(6), all), std::vector({3, 0, 1, 2})) << "and of MTP";
  EXPECT_EQ(first_experts(rows_in_turn(6), {2, 3}), std::vector({3, 0})) << "the first stage";
  const std::string numbered = "2: [1, 2, 3, 0], 3: [2, 1, 3, 0], 4: [3, 1, 2, 0]";
  EXPECT_EQ(first_experts("{initial_global_assignments: {" + numbered + "}}", all),
            std::vector({1, 2, 3, 0, 5}));
  EXPECT_EQ(first_experts("{initial_global_assignments: {" + numbered + ", 5: [2, 1, 3, 0]}}", all),
            std::vector({1, 2, 3, 2}));
  EXPECT_THAT(
      error_of([&] { first_experts(rows_in_turn(7), all); }),
      HasSubstr("f:1: error: 7 layers, where 'four' has 5, 3 of them with experts, and 1 of "
                "MTP\nhint: one row for all, for every layer or for every MoE layer, with "
                "or without those of MTP; or number the layers\n"));
  EXPECT_THAT(
      error_of([&] { slots_in(parse_placement(rows_in_turn(3), "f"), with_mtp(), all, 8); }),
      HasSubstr("4 slots, which 8 ranks cannot share evenly"));
}

TEST(PlacementFile, TwoFormsOfAFileSayTheSame) {
  const std::string slots = R"({"physical_to_logical_map": [3, 0, 1, 2, 3, 3], )";
  for (const char* same :
       {R"("log2phy": [[1], [2], [3], [0, 4, 5]]})", R"("expert_to_ep_rank": [0, 0, 1, 1]})",
        R"("expert_to_ep_rank": [0, 0, 1, 0]})", R"("rank_to_experts": [[0, 1, 3], [2, 3]]})"}) {
    EXPECT_EQ(given_slots(slots + same), replicated) << same;
  }
  for (const char* other :
       {R"("log2phy": [[2], [1], [3], [0, 4, 5]]})",
        R"("logical_to_all_physical_map": [[[2], [1], [3], [0, 4, 5]]]})",
        R"("expert_to_ep_rank": [1, 0, 1, 1]})", R"("rank_to_experts": [[0, 1], [2], [3]]})"}) {
    EXPECT_THAT(given_mistake(slots + other), HasSubstr("contradicts 'physical_to_logical_map'"))
        << other;
  }
}

TEST(PlacementFile, NumbersOfLayersAndRanksAreThereOnce) {
  EXPECT_THAT(given_mistake("rank0: [0, 1]\nrank_0: [1, 0]\nrank1: [2, 3]\n"),
              HasSubstr("f:2:9: error: 0 is there twice"));
}

TEST(PlacementFile, RanksMayHoldUnequalNumbers) {
  const Ranks expected = {{1}, {0, 2, 3}};
  EXPECT_EQ(given_slots("{expert_to_ep_rank: [1, 0, 1, 1]}"), expected);
  EXPECT_EQ(given_slots("{expert_to_rank: {0: 1, 1: 0, 2: 1, 3: 1}}"), expected);
  EXPECT_EQ(given_slots("[[1], [0, 2, 3]]"), expected);
}

TEST(PlacementFile, IdsMayBeWholeFloats) {
  EXPECT_EQ(given_slots(R"({"physical_to_logical_map": [3.0, 0.0, 1.0, 2.0, 3.0, 3.0]})"),
            replicated);
  EXPECT_THAT(given_mistake(R"({"physical_to_logical_map": [3.5, 0, 1, 2, 3, 3]})"),
              HasSubstr("'physical_to_logical_map.0' is 3.5, not a whole number"));
}

TEST(PlacementFile, RanksOfEveryLayerAreLayers) {
  EXPECT_EQ(given_slots("{rank_to_experts: [[[0, 1], [2, 3]], [[3, 0, 1], [2, 3, 3]], "
                        "[[0, 1], [2, 3]]]}"),
            replicated);
}

TEST(PlacementFile, ListsOfLayersThatLackAnExpertAreNoRanks) {
  // Three lists for three MoE layers, where a group has two ranks.
  EXPECT_THAT(given_mistake("[[0, 1, 2, 3],\n [0, 1, 2, 2],\n [0, 1, 2, 3]]"),
              HasSubstr("f:2: error: layer 2: expert 3 has no slot"));
  EXPECT_THAT(given_mistake("[[0, 1, 2],\n [0, 1, 2],\n [0, 1, 2]]"),
              HasSubstr("f:1: error: layer 1: expert 3 has no slot"));
  EXPECT_THAT(given_mistake("{0: [0, 1, 2, 3], 1: [0, 1, 2, 2], 2: [0, 1, 2, 3]}"),
              HasSubstr("expert 3 has no slot"));
  EXPECT_THAT(given_mistake("[[0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]"),
              HasSubstr("5 ranks, where an EP group has 2\nhint: --ep 5 if lists are ranks; of a "
                        "layer each has to hold all experts\n"));
}

TEST(PlacementFile, ListsThatAreTooDeepAreOneMistake) {
  const std::string deep = "[[[[0, 1], [2, 3]], [[0, 1], [2, 3]]], [[[0, 1], [2, 3]]]]";
  for (const auto& [key, most] : {std::pair("physical_to_logical_map", 2),
                                  {"log2phy", 3},
                                  {"expert_to_ep_rank", 2},
                                  {"rank_to_experts", 3}}) {
    const std::string said = given_mistake(fmt::format("{}: {}", key, deep));
    EXPECT_THAT(said, HasSubstr(fmt::format("'{}' has lists 4 deep, it may have {}", key, most)));
    EXPECT_EQ(said.find("error: "), said.rfind("error: ")) << said;
  }
  EXPECT_THAT(given_mistake(deep), HasSubstr("lists 4 deep, it may have 3"));
}

TEST(PlacementFile, MistakesHaveTheirLineAndAHint) {
  EXPECT_THAT(given_mistake("[0, 1, 2, 3, 4, 0]"),
              HasSubstr("f:1: error: slot 4 holds expert 4, but 'four' has experts 0 to 3"));
  EXPECT_THAT(given_mistake("phy2log:\n  - [0, 1, 2, 3]\n  - [0, 1, 2, 2]\n  - [0, 1, 2, 3]\n"),
              HasSubstr("f:3: error: layer 2: expert 3 has no slot"));
  EXPECT_THAT(given_mistake("[0, 1, 2, 3, 0]"),
              HasSubstr("5 slots, which 2 ranks cannot share evenly"));
  EXPECT_THAT(given_mistake("[[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 0]]"),
              HasSubstr("layer 3: 5 slots, which 2 ranks cannot share evenly"));
  EXPECT_THAT(given_mistake("{physical_to_logical_map: [0, 1, 2, 3, -1, -1]}"),
              HasSubstr("'physical_to_logical_map' has 2 slots without an expert, -1\n"));
  EXPECT_THAT(error_of([] { read_placement_file("map.npy"); }),
              HasSubstr("is an array of NumPy, which is not read as a placement"));
  EXPECT_THAT(given_mistake("[[0], [1], [2, 3]]"), HasSubstr("3 ranks, where an EP group has 2"));
  EXPECT_THAT(given_mistake("{phy2log: [[0, 1, 2, 3], [0, 1, 2, 3]]}"),
              HasSubstr("2 layers, where 'four' has 4, 3 of them with experts"));
  EXPECT_THAT(given_mistake("{initial_global_assignments: {1: [0, 1, 2, 3]}}"),
              HasSubstr("no placement of layer 2"));
  EXPECT_THAT(given_mistake("{initial_global_assignments: {1: [0, 1, 2, 3]}, num_slots: 6}"),
              HasSubstr("layer 1 has 4 slots, num_slots is 6"));
  EXPECT_THAT(given_mistake("{logical_count: [[1, 2, 3, 4]]}"), HasSubstr("loads of experts"));
  EXPECT_THAT(given_mistake("{log2phy: [[0], [0], [1], [2]]}"),
              HasSubstr("holds expert 0 already"));
  EXPECT_THAT(given_mistake("{log2phy: [[0], [2], [3], [4]]}"),
              HasSubstr("slot 1 holds no expert"));
  EXPECT_THAT(given_mistake("{rank0: [0, 1], rank2: [2, 3]}"), HasSubstr("no rank 1"));
  EXPECT_THAT(given_mistake("{layer_list: [{layer_id: 1, device_list: []}]}"),
              HasSubstr("'layer_id' does not count from 0 on"));
  EXPECT_THAT(given_mistake("{layer_list: [{layer_id: 0}]}"), HasSubstr("device_list"));
  for (const char* text : {"{experts: 4}", "[]", "[[]]", "x", "{}", "", "[0, -1]", "{a: [0]}"}) {
    EXPECT_NE(given_mistake(text), "") << text;
  }
}

}  // namespace
}  // namespace moesim
