// SPDX-License-Identifier: Apache-2.0
// Layouts of a pipeline: Megatron-Core's examples, its rules, and mistakes in their places.
#include "sim/planner/parallel/layer_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sim/planner/parallel/layout_text.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

std::vector<int> layers_of(const LayerLayout& layout) {
  std::vector<int> layers;
  for (int p = 0; p < layout.positions(); ++p) layers.push_back(layout.layers(p));
  return layers;
}

TEST(LayoutText, UnrollsSymbolsAndGroups) {
  EXPECT_EQ(unroll_layout("EttL"), (std::vector<std::string>{"EttL"}));
  EXPECT_EQ(unroll_layout("Et*3|(tt|)*2m|L"),
            (std::vector<std::string>{"Ettt", "tt", "tt", "m", "L"}));
  EXPECT_EQ(unroll_layout("E,(t*2|)*2,t,L"), (std::vector<std::string>{"Ett", "tt", "tL"}));
  EXPECT_EQ(unroll_layout("Et|*2tL"), (std::vector<std::string>{"Et", "", "tL"}));
  EXPECT_EQ(unroll_layout("(E|t)*1L"), (std::vector<std::string>{"E", "tL"}));
}

TEST(LayoutText, PointsAtTheColumnOfAMistake) {
  const auto of = [](const std::string& text) { return error_of([&] { unroll_layout(text); }); };
  EXPECT_EQ(
      of("Et*3|x|L"),
      "layout:1:6: error: 'x' is not a part of a layout\n"
      "  Et*3|x|L\n"
      "       ^\n"
      "hint: E embedding, t layer, m multi-token prediction, L loss, | next stage, *n repeats\n");
  EXPECT_THAT(of("Et|(tt|L"), HasSubstr("layout:1:4: error: this '(' is never closed"));
  EXPECT_THAT(of("Et|(tt|)L"), HasSubstr("layout:1:4: error: a group that is not repeated"));
  EXPECT_THAT(of("E((t)*2)*2L"), HasSubstr("layout:1:3: error: a group within a group"));
  EXPECT_THAT(of("E()*2L"), HasSubstr("layout:1:2: error: an empty group"));
  EXPECT_THAT(of("Et*L"), HasSubstr("layout:1:3: error: '*' without a number of times"));
  EXPECT_THAT(of("Et*0L"), HasSubstr("layout:1:3: error: '*' without a number of times"));
  EXPECT_THAT(of("Et*-2L"), HasSubstr("layout:1:3: error: '*' without a number of times"));
  EXPECT_THAT(of("Et*99999999999999999999L"), HasSubstr("layout:1:3: error"));
  EXPECT_THAT(of("Et*3000000000L"), HasSubstr("layout:1:3: error: the layout is too long"));
  EXPECT_THAT(of("(t*60000|)*60000"), HasSubstr("the layout is too long"));
  EXPECT_THAT(of("*3"), HasSubstr("layout:1:1: error: '*' is not a part"));
  EXPECT_THAT(of("Et )"), HasSubstr("layout:1:3: error: ' ' is not a part"));
}

TEST(LayerLayout, ReadsTheLayoutOfDeepSeekV3) {
  const LayerLayout layout("Et*3|(tt|)*29m|L", {.layers = 61, .mtp = 1, .pp = 8});
  EXPECT_EQ(layout.vpp(), 4);
  EXPECT_EQ(layout.positions(), 32);
  EXPECT_EQ(layout.parts(0), (std::vector<StagePart>{{StagePartKind::embedding, 0},
                                                     {StagePartKind::layer, 0},
                                                     {StagePartKind::layer, 1},
                                                     {StagePartKind::layer, 2}}));
  // Position 9 is chunk 1 of stage 1: three layers, then eight times two, come before.
  EXPECT_EQ(layout.parts(1, 1),
            (std::vector<StagePart>{{StagePartKind::layer, 19}, {StagePartKind::layer, 20}}));
  EXPECT_EQ(layout.parts(6, 3), (std::vector<StagePart>{{StagePartKind::mtp, 0}}));
  EXPECT_EQ(layout.parts(7, 3), (std::vector<StagePart>{{StagePartKind::head, 0}}));
  EXPECT_EQ(layout.position_of({StagePartKind::layer, 60}), 29);
  EXPECT_EQ(layout.stage_of(29), 5);
  EXPECT_EQ(layout.chunk_of(29), 3);
  EXPECT_EQ(LayerLayout(layout.str(), {.layers = 61, .mtp = 1, .pp = 8}).str(), layout.str());
}

TEST(LayerLayout, RefusesALayoutOfAnotherModelOrPipeline) {
  const auto of = [](const std::string& text, const LayerSplit& split) {
    return error_of([&] { LayerLayout(text, split); });
  };
  const LayerSplit four{.layers = 4, .pp = 2};
  EXPECT_EQ(of("Ett|ttL", four), "");
  EXPECT_THAT(of("Ett|t|tL", four), HasSubstr("3 virtual stages, which pp = 2 does not divide"));
  EXPECT_THAT(of("tt|ttL", four), HasSubstr("does not begin with the embedding"));
  EXPECT_THAT(of("Ett|tt", four), HasSubstr("does not end with the loss"));
  EXPECT_THAT(of("Ett|tEtL", four), HasSubstr("has 2 embeddings (E), the model 1"));
  EXPECT_THAT(of("EttL|ttL", four), HasSubstr("has 2 losses (L), the model 1"));
  EXPECT_THAT(of("Ett|tttL", four), HasSubstr("has 5 layers (t), the model 4"));
  EXPECT_THAT(of("Ett|ttmL", four), HasSubstr("has 1 MTP layers (m), the model 0"));
  EXPECT_THAT(of("Ett|tmtL", {.layers = 4, .mtp = 1, .pp = 2}), HasSubstr("a layer (t) after one"));
  EXPECT_THAT(of("Ett|ttm|m|L", {.layers = 4, .mtp = 2, .pp = 2}),
              HasSubstr("in several virtual stages"));
  EXPECT_THAT(of("Ett|ttm||L", {.layers = 4, .mtp = 1, .pp = 2}),
              HasSubstr("a chunk that is not the last"));
  EXPECT_EQ(of("Ett|tt|m|L", {.layers = 4, .mtp = 1, .pp = 2}), "");
}

TEST(LayerLayout, SharesLayersEvenlyAsMegatronDoes) {
  // Its docstring: 16 layers, pp 4, vpp 2: GPU 0 has [1, 2] [9, 10].
  const LayerLayout layout({.layers = 16, .pp = 4, .vpp = 2});
  EXPECT_EQ(layout.str(), "Ett|tt|tt|tt|tt|tt|tt|ttL");
  EXPECT_EQ(layout.position_of({StagePartKind::layer, 8}), layout.position(0, 1));
  EXPECT_EQ(LayerLayout({.layers = 4, .mtp = 1, .pp = 2}).str(), "Ett|ttmL");
  EXPECT_EQ(LayerLayout({.layers = 3}).str(), "EtttL");
}

TEST(LayerLayout, TakesMegatronsUnevenOptions) {
  EXPECT_EQ(LayerLayout({.layers = 7, .pp = 4, .in_last_stage = 1}).str(), "Ett|tt|tt|tL");
  EXPECT_EQ(LayerLayout({.layers = 8, .pp = 4, .in_first_stage = 1, .in_last_stage = 1}).str(),
            "Et|ttt|ttt|tL");
  EXPECT_EQ(LayerLayout({.layers = 10, .pp = 2, .vpp = 2, .in_first_stage = 4}).str(),
            "Ett|ttt|tt|tttL");
  EXPECT_EQ(
      LayerLayout({.layers = 6, .pp = 4, .account_for_embedding = true, .account_for_loss = true})
          .str(),
      "Et|tt|tt|tL");
  EXPECT_EQ(LayerLayout({.layers = 7, .pp = 2, .vpp = 2, .account_for_loss = true}).str(),
            "Ett|tt|tt|tL");
  // What counts as a layer may be all that a position holds.
  EXPECT_EQ(
      LayerLayout(
          {.layers = 2, .pp = 2, .vpp = 2, .account_for_embedding = true, .account_for_loss = true})
          .str(),
      "E|t|t|L");
  const auto of = [](const LayerSplit& split) { return error_of([&] { LayerLayout{split}; }); };
  EXPECT_THAT(of({.layers = 2, .pp = 2, .vpp = 2, .account_for_embedding = true}),
              HasSubstr("2 layers on pp 2 x vpp 2 = 4 stages"));
  EXPECT_THAT(of({.layers = 2, .pp = 2, .vpp = 2, .account_for_loss = true}),
              HasSubstr("2 layers on pp 2 x vpp 2 = 4 stages"));
  EXPECT_THAT(of({.layers = 8, .pp = 4, .in_last_stage = 1}),
              HasSubstr("7 layers cannot be shared evenly by 3 other stages"));
  EXPECT_THAT(of({.layers = 9, .pp = 2, .in_first_stage = 4, .in_last_stage = 4}),
              HasSubstr("hold 8, not the model's 9"));
  EXPECT_THAT(of({.layers = 10, .pp = 2, .vpp = 2, .in_first_stage = 5}),
              HasSubstr("5 layers of a stage cannot be shared evenly by 2 chunks (vpp)"));
  EXPECT_THAT(
      of({.layers = 8, .pp = 4, .account_for_loss = true}),
      HasSubstr("9 layers, embedding and loss counted cannot be shared evenly by 4 stages"));
  EXPECT_THAT(of({.layers = 8, .pp = 2, .in_first_stage = 4, .account_for_loss = true}),
              HasSubstr("say one or the other"));
  EXPECT_THAT(of({.layers = 8, .in_first_stage = 4}), HasSubstr("with pp = 1"));
  EXPECT_THAT(of({.layers = 3, .pp = 2, .in_first_stage = 9}), HasSubstr("cannot be shared"));
  EXPECT_THAT(of({.layers = 3, .pp = 4}), HasSubstr("3 layers on pp 4 x vpp 1 = 4 stages"));
}

TEST(LayerLayout, IsThatOfMegatronBridgeForDeepSeekV3) {
  // recipes/deepseek/h100/deepseek_v3.py, _get_deepseek_v3_pipeline_layout: 61 layers, one of MTP.
  const auto of = [](int pp, int vpp) {
    return layers_of(LayerLayout({.layers = 61, .mtp = 1, .pp = pp, .vpp = vpp}));
  };
  EXPECT_EQ(of(4, 1), (std::vector<int>{16, 16, 16, 13}));
  EXPECT_EQ(of(8, 1), (std::vector<int>{8, 8, 8, 8, 8, 8, 8, 5}));
  EXPECT_EQ(of(4, 2), of(8, 1));
  EXPECT_EQ(of(16, 1), (std::vector<int>{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1}));
  EXPECT_EQ(of(8, 2), of(16, 1));
  EXPECT_EQ(of(4, 4), of(16, 1));
}

TEST(LayerLayout, TakesLayersFromTheLastAndTheFirstStagesWhereTheyDoNotShareEvenly) {
  EXPECT_EQ(layers_of(LayerLayout({.layers = 61, .pp = 16})),
            (std::vector<int>{3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3}));
  // The MTP layer counts as one of the last stage's.
  EXPECT_EQ(LayerLayout({.layers = 7, .mtp = 1, .pp = 3}).str(), "Ettt|ttt|tmL");
  EXPECT_EQ(LayerLayout({.layers = 6, .mtp = 1, .pp = 3}).str(), "Ett|tt|ttmL");  // 6 share evenly
  EXPECT_EQ(LayerLayout({.layers = 5, .mtp = 1, .pp = 2}).str(), "Etttt|tmL");
  EXPECT_EQ(LayerLayout({.layers = 7, .mtp = 3, .pp = 2}).str(), "Ettttttt|mmmL");
  EXPECT_EQ(LayerLayout({.layers = 7, .pp = 2}).str(), "Etttt|tttL");
  for (int pp = 1; pp <= 16; ++pp) {
    for (int vpp = 1; vpp <= (pp > 1 ? 4 : 1); ++vpp) {
      for (int layers = pp * vpp; layers < 3 * pp * vpp + 2; ++layers) {
        const LayerLayout layout({.layers = layers, .pp = pp, .vpp = vpp});
        const std::vector<int> each = layers_of(layout);
        EXPECT_EQ(std::accumulate(each.begin(), each.end(), 0), layers);
        EXPECT_LE(std::ranges::max(each) - std::ranges::min(each), 1);
        EXPECT_EQ(each.back(), std::ranges::min(each));
        EXPECT_EQ(LayerLayout(layout.str(), {.layers = layers, .pp = pp}).str(), layout.str());
      }
    }
  }
}

}  // namespace
}  // namespace moesim
