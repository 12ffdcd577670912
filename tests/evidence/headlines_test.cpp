// SPDX-License-Identifier: Apache-2.0
// Headlines and stated orders: how they are read, judged, counted apart and held to what was right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/evidence/bubble_formula.h"
#include "sim/evidence/headline_table.h"
#include "sim/evidence/papers_report.h"
#include "sim/evidence/shipped_tables.h"
#include "sim/scenario/scenario.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

PaperTable parsed(const std::string& text) { return parse_paper_table(text, "claims.yaml"); }

const std::string claims = R"(title: Claims
source: made up
headlines: true
settings:
  node: {scenario: quickstart}
figures:
- {system: A, claim: end to end, setting: node, policy: dedup, over: alltoall, measure: step, published: [1.18, 1.27], source: table 1, why: The reason.}
- {system: B, claim: slower, setting: node, policy: megatron, over: alltoall, measure: step, published: 0.8, source: table 2, why: Another.}
)";

const std::string ordered = R"(title: Orders
source: made up
settings: {s: {}}
figures:
- {setting: s, policy: a, over: b, measure: step, published: 1.02}
orders:
- {setting: s, slower: a, faster: c, source: a figure}
)";

JudgedTable judged_as(const PaperTable& table, const std::vector<double>& values) {
  PredictedTable predicted;
  for (const double value : values) predicted.push_back({value, "", ""});
  return judged({table}, {predicted})[0];
}

TEST(Headlines, AreReadWithTheirRanges) {
  const PaperTable table = parsed(claims);
  ASSERT_TRUE(table.headlines);
  EXPECT_EQ(table.settings[0].scenario, "quickstart");
  EXPECT_EQ(table.figures[0].name, "A, end to end");
  EXPECT_DOUBLE_EQ(*table.figures[0].published, 1.18);
  EXPECT_DOUBLE_EQ(*table.figures[0].up_to, 1.27);
  EXPECT_EQ(table.figures[1].headline.why, "Another.");
}

TEST(Headlines, SayWhatTheyLack) {
  std::string text = claims;
  text.replace(text.find(", why: Another."), 15, "");
  EXPECT_THAT([&] { parsed(text); },
              testing::ThrowsMessage<Error>(AllOf(HasSubstr("claims.yaml"), HasSubstr("why"))));
  text = claims;
  text.replace(text.find("[1.18, 1.27]"), 12, "[1.27, 1.18]");
  EXPECT_THROW(parsed(text), Error);
}

TEST(Headlines, InsideARangeNothingIsOff) {
  const auto error = [](double simulated) {
    return *judged_as(parsed(claims), {simulated, 1}).error(0);
  };
  EXPECT_EQ(error(1.2), 0);
  EXPECT_EQ(error(1.18), 0);
  EXPECT_EQ(error(1.27), 0);
  EXPECT_NEAR(error(0.59), -0.5, 1e-12);
  EXPECT_NEAR(error(2.54), 1, 1e-12);
}

TEST(Headlines, AreCountedByThemselves) {
  const JudgedTable t = judged_as(parsed(claims), {1.5, 1.1});  // 18 % too much; the wrong way
  const HeadlineCount count = count_headlines({t});
  EXPECT_EQ(count.words(), "0 of 2 sizes within 15 %, 1 of 2 orders as published");
  EXPECT_TRUE(total_of({t}).relative.errors.empty());
  const std::string text = papers_text({t}, "v").text();
  EXPECT_THAT(text, AllOf(HasSubstr("1.18 to 1.27"), HasSubstr("+18.1 %"), HasSubstr("WRONG"),
                          HasSubstr("# A, end to end (table 1): The reason."),
                          HasSubstr("quickstart"), Not(HasSubstr("contested"))));
}

TEST(Headlines, WhatIsOutsideOrNotSimulatedIsSaid) {
  PaperTable table = parsed(claims);
  table.figures[0].outside = "another quantity";
  JudgedTable t = judged_as(table, {9, 0.8});
  t.predicted[1] = {0, "does not fit", ""};
  EXPECT_EQ(count_headlines({t}).words(),
            "0 of 0 sizes within 15 %, 1 of 1 orders as published, 1 not simulated");
  EXPECT_THAT(headlines_text({t}).text(),
              AllOf(HasSubstr("(outside)"), HasSubstr("Outside: another quantity."),
                    HasSubstr("not simulated: does not fit")));
}

TEST(Headlines, AreAskedForBySystemOrScenario) {
  const auto names = [](const std::vector<std::string>& only) {
    std::vector<std::string> found;
    const auto tables = headlines_of({parsed(claims)}, only);
    for (const PaperFigure& f : tables[0].figures) {
      found.push_back(f.headline.system);
    }
    return found;
  };
  EXPECT_THAT(names({}), ElementsAre("A", "B"));
  EXPECT_THAT(names({"B"}), ElementsAre("B"));
  EXPECT_THAT(names({"quick*"}), ElementsAre("A", "B"));
  EXPECT_THAT([&] { names({"C"}); }, testing::ThrowsMessage<Error>(HasSubstr("--only C")));
  EXPECT_TRUE(headlines_of({parsed(ordered)}, {}).empty());
}

TEST(Headlines, APageOfThemHasOnlyTheTable) {
  const std::string page =
      "<!-- rerun -->\n<!-- end -->\n<!-- begin: written by moesim papers --page -->\n<!-- end "
      "-->\n";
  const JudgedTable t = judged_as(parsed(claims), {1.2, 0.8});
  const std::string text = papers_page("README.md", page, {t});
  EXPECT_THAT(text, AllOf(HasSubstr("| A | end to end | `quickstart` | 1.18 to 1.27 | 1.20 |"),
                          HasSubstr("2 of 2 sizes within 15 %"), Not(HasSubstr("The reason"))));
}

TEST(StatedOrders, CountWhateverTheirSize) {
  const PaperTable table = parsed(ordered);
  ASSERT_EQ(table.figures.size(), 2u);
  EXPECT_EQ(table.figures[1].name, "a is slower than c on s");
  const JudgedTable right = judged_as(table, {1.02, 1.001}), wrong = judged_as(table, {1.02, 0.99});
  EXPECT_EQ(right.in_order(1), true);
  EXPECT_EQ(wrong.in_order(1), false);
  EXPECT_EQ(right.summary().figures, 1);
  EXPECT_TRUE(right.pairs.empty());
  EXPECT_THAT(papers_text({right}, "v").text(),
              AllOf(HasSubstr("# 1 of 1 hold"), Not(HasSubstr("# wrong"))));
  const std::string document = papers_json({right}, "v");
  EXPECT_THAT(document, HasSubstr("\"order_source\": \"a figure\""));
  EXPECT_EQ(document.find("order_source"), document.rfind("order_source")) << "only there";
  EXPECT_THAT(papers_text({wrong}, "v").text(),
              AllOf(HasSubstr("# 0 of 1 hold"),
                    HasSubstr("# wrong: claims, a is slower than c on s (a figure)")));
}

TEST(StatedOrders, OnesThatWereRightMustStay) {
  const PaperTable table = parsed(ordered);
  const std::string stored = papers_state({judged_as(table, {1.02, 1.1})});
  const auto grown = [&](double order) {
    return grown_errors("state", stored, {judged_as(table, {1.02, order})}, 0.005);
  };
  EXPECT_THAT(grown(1.2), IsEmpty());
  EXPECT_THAT(grown(0.9),
              ElementsAre("claims/a is slower than c on s: the order was right, and is not"));
}

TEST(Headlines, TheirErrorsAreStoredApart) {
  const std::string stored = papers_state({judged_as(parsed(claims), {1.3, 0.8})});
  const auto state = nlohmann::json::parse(stored);
  EXPECT_TRUE(state["relative"].empty());
  EXPECT_NEAR(state["headlines"]["claims/A, end to end"].get<double>(), 0.0236, 1e-9);
  EXPECT_THAT(grown_errors("s", stored, {judged_as(parsed(claims), {1.4, 0.8})}, 0.005),
              ElementsAre(HasSubstr("claims/A, end to end: was +2.4 %, is +10.2 %")));
}

/// Turns of four equal stages: F 1, B 2 with W 0.5 in it if it is by itself, FB 2.5.
TEST(BubbleFormula, IsThatOfThePublication) {
  const auto bubble = [](PipelineKind kind, int microbatches, double f, double b, double w,
                         double fb) {
    const Pipeline pipeline({kind, 4, microbatches, kind == PipelineKind::interleaved ? 2 : 1});
    std::vector<TurnTimes> stages(4);
    for (const TurnAt at : pipeline.order()) {
      const Turn& turn = pipeline.at(at);
      TurnTimes& mine = stages[static_cast<std::size_t>(at.stage)];
      if (turn.beside) {
        mine.of(TurnPart::merged) += Seconds(fb);
      } else if (turn.work.kind == WorkKind::forward) {
        mine.of(TurnPart::forward) += Seconds(f);
      } else if (turn.work.kind == WorkKind::weight_gradient) {
        mine.of(TurnPart::weights) += Seconds(w);
      } else {
        mine.of(TurnPart::backward) += Seconds(turn.work.kind == WorkKind::backward ? b : b - w);
      }
    }
    return formula_bubble(pipeline, stages).value_or(Seconds(-1)).value;
  };
  EXPECT_NEAR(bubble(PipelineKind::gpipe, 16, 1, 2, 0.5, 2.5), 9, 1e-12);
  EXPECT_NEAR(bubble(PipelineKind::dualpipev, 16, 1, 2, 0.5, 2.5), 9, 1e-12);  // 3 x (4.5 - 1.5)
  EXPECT_NEAR(bubble(PipelineKind::interleaved, 16, 1, 2, 0.5, 2.5), 9, 1e-12);
  for (const auto without :
       {PipelineKind::zbv, PipelineKind::v_half, PipelineKind::v_min, PipelineKind::combined}) {
    EXPECT_EQ(bubble(without, 16, 1, 2, 0.5, 2.5), -1);
  }
  EXPECT_NEAR(bubble(PipelineKind::one_f_one_b, 16, 1, 2, 0.5, 2.5), 9, 1e-12);
  EXPECT_NEAR(bubble(PipelineKind::zb1p, 16, 1, 2, 0.5, 2.5), 6, 1e-12);      // 3 x (3 - 2 x 0.5)
  EXPECT_NEAR(bubble(PipelineKind::dualpipe, 16, 1, 2, 0.5, 2.5), 3, 1e-12);  // 2.5 + 2 - 1.5
}

/// Sizes of pipelines that the schedules fix exactly, in a scenario with equal stages.
TEST(Headlines, AScenarioIsASettingWhoseFlagsChangeIt) {
  const std::string folder = testing::TempDir() + "/headlines-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  write_file(folder + "/pipe.yaml", R"(topology: gb200-nvl72
model: qwen3-30b-a3b
policy: [alltoall, dedup]
parallel: {pp: 4, ep: 8}
batch: {global: 64, sequence: 1024}
routing: balanced
software: ideal
transport: ideal
set: [topology.nodes=1, topology.node.gpus=32, topology.node.nics.count=32, model.layers=8,
      model.moe_layers.count=8, model.vocabulary=128]
)");
  const PaperTable table = parsed(R"(title: Pipelines
source: docs/pipelines.md
headlines: true
settings: {pipe: {scenario: )" + folder +
                                  R"(/pipe.yaml}}
policies:
  GPipe: {policy: alltoall, pipeline: gpipe}
  1F1B: {policy: alltoall, pipeline: 1f1b}
figures:
- {system: GPipe, claim: activations, setting: pipe, policy: GPipe, over: 1F1B, measure: activations, published: 2, source: its order, why: None.}
- {system: 1F1B, claim: bubble, setting: pipe, policy: 1F1B, measure: bubble, published: formula, source: its formula, why: Transfers.}
)");
  const JudgedTable t = judged({table}, predict({table}, {2}))[0];
  EXPECT_NEAR(t.predicted[0].value, 2, 0.1);  // 8 microbatches, of which 1F1B holds 4
  ASSERT_TRUE(t.table.figures[1].published);
  EXPECT_GT(*t.error(1), 0);
  EXPECT_LT(*t.error(1), 0.2);
  std::filesystem::remove_all(folder);
}

TEST(Headlines, EveryShippedOneHasAScenarioAndAReason) {
  int count = 0;
  for (const PaperTable& table : shipped_paper_tables({})) {
    if (!table.headlines) continue;
    for (const PaperFigure& figure : table.figures) {
      ++count;
      const std::string& scenario = table.settings[figure.setting].scenario;
      EXPECT_NO_THROW(read_scenario(scenario, {})) << figure.name;
      EXPECT_TRUE(figure.headline.why.ends_with(".")) << figure.name;
    }
  }
  EXPECT_GT(count, 4);
}

}  // namespace
}  // namespace moesim
