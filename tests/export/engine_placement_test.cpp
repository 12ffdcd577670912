// SPDX-License-Identifier: Apache-2.0
#include "sim/export/engine_placement.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

SlotTable slots(const std::vector<std::vector<int>>& experts) {
  SlotTable table;
  for (const auto& rank : experts) {
    auto& list = table.emplace_back();
    for (const int expert : rank) list.emplace_back(expert);
  }
  return table;
}

/// TensorRT-LLM's documented example, 4 experts on 6 slots of 3 ranks, and another layer.
const EnginePlacement example = {
    4, 6, {{3, slots({{0, 2}, {1, 3}, {2, 0}})}, {5, slots({{3, 1}, {0, 2}, {1, 3}})}}};

std::string message(const EnginePlacement& placement, const std::string& format) {
  return error_of([&] { engine_placement_text(placement, format); });
}

TEST(EnginePlacement, OfTensorRtLlm) {
  EXPECT_EQ(engine_placement_text(example, "trtllm"),
            "initial_global_assignments:\n"
            "  3: [0, 2, 1, 3, 2, 0]\n"
            "  5: [3, 1, 0, 2, 1, 3]\n"
            "num_slots: 6\n"
            "layer_updates_per_iter: 0\n");
}

TEST(EnginePlacement, OfSglangHasEveryLayerOfTheModel) {
  const auto map =
      nlohmann::json::parse(engine_placement_text(example, "sglang"))["physical_to_logical_map"];
  ASSERT_EQ(map.size(), 6U);
  EXPECT_EQ(map[3], nlohmann::json({0, 2, 1, 3, 2, 0}));
  EXPECT_EQ(map[0], nlohmann::json({0, 1, 2, 3, 0, 1}));
  for (const auto& row : map) {
    for (int expert = 0; expert < 4; ++expert) EXPECT_THAT(row, testing::Contains(expert));
  }
}

TEST(EnginePlacement, OfSglangHasNoLayerOfMtp) {
  EnginePlacement placement = example;
  placement.layers.push_back({6, slots({{3, 2}, {1, 0}, {2, 3}})});
  EXPECT_EQ(engine_placement_text(placement, "sglang"), engine_placement_text(example, "sglang"));
  EXPECT_EQ(layers_left_out(placement, "sglang"), std::vector{6});
  EXPECT_TRUE(layers_left_out(placement, "eplb").empty());
  EXPECT_EQ(nlohmann::json::parse(engine_placement_text(placement, "eplb"))["layers"],
            nlohmann::json({3, 5, 6}));
}

TEST(EnginePlacement, OfEplbMapsAreInverse) {
  const auto maps = nlohmann::json::parse(engine_placement_text(example, "eplb"));
  EXPECT_EQ(maps["layers"], nlohmann::json({3, 5}));
  EXPECT_EQ(maps["log2phy"][0], nlohmann::json::parse("[[0, 5], [2, -1], [1, 4], [3, -1]]"));
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (int expert = 0; expert < 4; ++expert) {
      const auto& slots_of = maps["log2phy"][layer][static_cast<std::size_t>(expert)];
      int held = 0;
      for (const auto& slot : slots_of) {
        if (slot == -1) continue;
        EXPECT_EQ(maps["phy2log"][layer][slot.get<std::size_t>()], expert);
        ++held;
      }
      EXPECT_EQ(maps["logcnt"][layer][static_cast<std::size_t>(expert)], held);
    }
  }
}

TEST(EnginePlacement, OfVllmIsOneRankPerExpert) {
  const auto layer = slots({{2, 0}, {1, 3}});
  EXPECT_EQ(engine_placement_text({4, 9, {{1, layer}, {2, layer}}}, "vllm"),
            "{\"expert_to_ep_rank\":[0,1,0,1]}\n");
  EXPECT_THAT(message({4, 9, {{1, layer}, {2, slots({{0, 1}, {2, 3}})}}}, "vllm"),
              testing::HasSubstr("layers 1 and 2 have different placements"));
  EXPECT_THAT(message(example, "vllm"),
              testing::HasSubstr("layer 3: expert 2 is on ranks 0 and 2"));
}

TEST(EnginePlacement, RefusesWhatEnginesCannotHold) {
  for (const std::string& format : engine_formats()) {
    EXPECT_THAT(message({3, 2, {{1, slots({{0, 1}, {2}})}}}, format),
                testing::HasSubstr("layer 1: rank 1 has 1 slots, rank 0 of layer 1 has 2"));
    EXPECT_THAT(message({4, 3, {{1, slots({{0, 1}, {2, 3}})}, {2, slots({{0}, {1, 2}})}}}, format),
                testing::HasSubstr("layer 2: rank 0 has 1 slots, rank 0 of layer 1 has 2"));
  }
  EXPECT_THAT(message(example, "trt-llm"), testing::HasSubstr("did you mean 'trtllm'?"));
}

}  // namespace
}  // namespace moesim
