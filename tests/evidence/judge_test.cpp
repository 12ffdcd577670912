// SPDX-License-Identifier: Apache-2.0
// Published figures: how they are read, judged, stored and put on a page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/evidence/frozen.h"
#include "sim/evidence/paper_case.h"
#include "sim/evidence/papers_report.h"
#include "sim/evidence/shipped_tables.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file that goes with the test.
class PaperFile {
 public:
  explicit PaperFile(const std::string& text)
      : path_(testing::TempDir() + "/paper-" + std::to_string(getpid()) + ".yaml") {
    write_file(path_, text);
  }
  ~PaperFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string node = R"(title: A node of eight
source: made up
common: {transport: ideal, topology: h800-rail, ep: 8, pass: forward, set: [topology.nodes=1]}
settings:
  small: {all_to_all: 160 kB}
  large: {all_to_all: 160 MB}
policies:
  slow links: {policy: alltoall, set: [topology.node.nvlink.bandwidth=80 GB/s]}
figures:
- {setting: small, policy: alltoall, measure: dispatch, published: 13.875 us}
- {setting: large, policy: alltoall, measure: dispatch, published: 1 ms}
- {setting: large, policy: slow links, measure: dispatch, bytes: 160 MB, published: 100 GB/s}
- {setting: large, policy: alltoall, measure: dispatch, over: slow links, published: 2, name: gain}
)";

TEST(Papers, OfSeveralPatternsEachHasItsTables) {
  const auto tables = shipped_paper_tables({"automodel/qwen3-30b", "folding-gpus"});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].name, "automodel");
  EXPECT_EQ(tables[0].figures.size(), 1u);
  EXPECT_EQ(tables[1].name, "folding-gpus");
  EXPECT_GT(tables[1].figures.size(), 1u);
}

TEST(Papers, ReadsFiguresWithTheirUnits) {
  const PaperTable table = read_paper_table(PaperFile(node).path());
  ASSERT_EQ(table.settings.size(), 2u);
  ASSERT_EQ(table.figures.size(), 4u);
  EXPECT_EQ(table.figures[0].name, "small alltoall dispatch");
  EXPECT_DOUBLE_EQ(*table.figures[0].published, 13.875e-6);
  EXPECT_DOUBLE_EQ(*table.figures[2].published, 1.6e-3);
  EXPECT_TRUE(table.figures[3].relative());
  EXPECT_EQ(table.variants[*table.figures[3].over].name, "slow links");
}

TEST(Papers, ASpeedupMayBePublishedAsTwoTimes) {
  const PaperFile file(node +
                       "- {setting: small, policy: alltoall, measure: step, over: slow links, "
                       "baseline: 3 s, published: 2 s}\n");
  EXPECT_DOUBLE_EQ(*read_paper_table(file.path()).figures[4].published, 1.5);
}

TEST(Papers, TellsAllMistakesOfAFile) {
  const PaperFile file(
      "title: x\nsettings: {a: {ep: 8}}\n"
      "figures:\n- {policy: dedup, measure: dispach, published: 3}\n");
  try {
    read_paper_table(file.path());
    FAIL() << "no error";
  } catch (const Error& e) {
    std::string text;
    for (const Diagnostic& d : e.diagnostics()) text += d.str();
    EXPECT_THAT(text, HasSubstr("source"));
    EXPECT_THAT(text, HasSubstr("did you mean 'dispatch'?"));
  }
}

// A rank sends 7/8 of its buffer over NVLink of 160 GB/s, after 12 us and two hops of 0.5 us.
TEST(Papers, PredictsAnEvenExchangeByItsClosedForm) {
  const PaperTable table = read_paper_table(PaperFile(node).path());
  const std::vector<PredictedTable> predicted = predict({table}, {2});
  const auto microseconds = [](double bytes, double rate) {
    return 13 + bytes * 7 / 8 / rate * 1e6;
  };
  EXPECT_NEAR(predicted[0][0].value * 1e6, microseconds(160e3, 160e9), 1e-3);
  EXPECT_NEAR(predicted[0][1].value * 1e6, microseconds(160e6, 160e9), 0.01);
  EXPECT_NEAR(predicted[0][2].value * 1e6, microseconds(160e6, 80e9), 0.01);
  EXPECT_NEAR(predicted[0][3].value, predicted[0][2].value / predicted[0][1].value, 1e-12);
  const PaperTable with_layer = read_paper_table(
      PaperFile(node + "- {setting: small, policy: alltoall, measure: layer, published: 1 ms}\n")
          .path());
  const PredictedTable more = predict({with_layer}, {2})[0];
  EXPECT_EQ(more[0].value, predicted[0][0].value);
  EXPECT_GT(more[4].value, 2 * more[0].value);  // dispatch, experts, combine
}

TEST(Papers, WhatWasFittedToASourceCanBeLeftOut) {
  const PaperFile file("left_out: [topology.node.nvlink.bandwidth=40 GB/s]\n" + node);
  std::vector<PaperTable> tables = {read_paper_table(file.path())};
  tables[0].figures[1].fitted = "a rate";
  leave_out_own_fits(tables);
  EXPECT_TRUE(tables[0].figures[1].fitted.empty());
  const std::vector<PredictedTable> predicted = predict(tables, {2});
  EXPECT_NEAR(predicted[0][1].value, 13e-6 + 140e6 / 40e9, 1e-8);
  EXPECT_NEAR(predicted[0][2].value, 13e-6 + 140e6 / 80e9, 1e-8);  // what a variant says wins
}

TEST(Papers, AnEvenExchangeHasTheBytes) {
  for (const int ranks : {2, 8, 64, 128}) {
    for (const std::int64_t bytes : {1892352L, 8L << 20, 242221056L, 1L << 30}) {
      const EvenExchange even = even_exchange(Bytes(bytes), ranks);
      EXPECT_EQ(even.tokens % ranks, 0);
      EXPECT_NEAR(static_cast<double>(even.tokens * even.hidden * 4), static_cast<double>(bytes),
                  1e-3 * static_cast<double>(bytes));
    }
  }
}

/// A table of one setting, with times of policies a, b, c as published and as simulated.
JudgedTable three_times(std::vector<double> published, const std::vector<double>& simulated) {
  PaperTable table;
  table.name = "three";
  table.settings = {{"s", {}, {}, {}}};
  PredictedTable predicted;
  for (std::size_t i = 0; i < published.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    table.variants.push_back({name, name, {}});
    PaperFigure figure;
    figure.name = name;
    figure.variant = i;
    figure.published = published[i];
    table.figures.push_back(figure);
    predicted.push_back({i < simulated.size() ? simulated[i] : 0, "", ""});
  }
  return judged({table}, {predicted})[0];
}

TEST(Papers, CountsPairsThatDifferByMoreThanTheMargin) {
  // a and b are within 5 %; c is ahead of both as published, and only of b as simulated.
  const JudgedTable t = three_times({10, 10.4, 8}, {10, 13, 11});
  const PaperSummary sum = t.summary();
  EXPECT_EQ(sum.all.pairs, 2);
  EXPECT_EQ(sum.all.right, 1);
  EXPECT_EQ(sum.contested.pairs, 2);
  EXPECT_NEAR(sum.absolute.median(), 0.25, 1e-12);  // 0, 25 and 37.5 %
  EXPECT_NEAR(sum.absolute.percentile_90(), 0.375, 1e-12);
  EXPECT_TRUE(sum.relative.errors.empty());
}

TEST(Papers, FittedFiguresDoNotCount) {
  JudgedTable t = three_times({10, 20, 40}, {10, 20, 40});
  t.table.figures[2].fitted = "a rate";
  t = judged({t.table}, {t.predicted})[0];
  EXPECT_EQ(t.summary().absolute.errors.size(), 2u);
  EXPECT_EQ(t.summary().all.pairs, 1);
  EXPECT_EQ(t.summary().fitted, 1);
}

TEST(Papers, FiguresOutsideAreCountedApart) {
  JudgedTable t = three_times({10, 20, 40}, {11, 20, 10});
  t.table.figures[2].outside = "another quantity";
  t = judged({t.table}, {t.predicted})[0];
  EXPECT_EQ(t.summary().absolute.errors.size(), 2u);
  EXPECT_EQ(t.summary().all.pairs, 1);
  EXPECT_EQ(t.summary().outside, 1);
  const PaperSummary with = total_of(with_those_outside({t}));
  EXPECT_EQ(with.absolute.errors.size(), 3u);
  EXPECT_EQ(with.all.pairs, 3);
  const std::string text = papers_text({t}, "v").text();
  EXPECT_THAT(text, HasSubstr("# outside: three, c: another quantity"));
  EXPECT_THAT(text, HasSubstr("with those outside"));
}

TEST(Papers, ASpeedupIsAPairWithItsBaseline) {
  JudgedTable t = three_times({1.5, 0.9, 1.02}, {1.2, 1.1, 1.3});
  for (PaperFigure& f : t.table.figures) f.over = 0;
  t = judged({t.table}, {t.predicted})[0];
  // Of b: ahead as simulated, behind as published. c is too near to the baseline.
  int with_baseline = 0, right = 0;
  for (const PaperPair& pair : t.pairs) {
    if (pair.second) continue;
    ++with_baseline;
    right += pair.right;
  }
  EXPECT_EQ(with_baseline, 2);
  EXPECT_EQ(right, 1);
}

TEST(Papers, WhatIsNotPredictedIsNoError) {
  JudgedTable t = three_times({1, 2, 3}, {1, 2, 3});
  t.predicted[1] = {0, "does not fit", ""};
  EXPECT_EQ(t.error(1), std::nullopt);
  EXPECT_EQ(t.summary().predicted, 2);
  EXPECT_THAT(papers_text({t}, "v").text(), HasSubstr("# three, b: does not fit"));
}

TEST(Papers, GrownErrorsAreFound) {
  const std::string stored = papers_state({three_times({10, 10, 10}, {11, 9, 10})});
  const auto grown = [&](const std::vector<double>& simulated) {
    return grown_errors("state", stored, {three_times({10, 10, 10}, simulated)}, 0.005);
  };
  EXPECT_TRUE(grown({11, 9, 10}).empty());
  EXPECT_TRUE(
      grown({10.5, 11.04, 10.04}).empty());  // the other side of the same size is not a growth
  EXPECT_THAT(grown({11.2, 9, 10}), ElementsAre("three/a: was +10.0 %, is +12.0 %"));
  EXPECT_THROW(grown_errors("state", "{}", {}, 0), Error);
  EXPECT_THROW(grown_errors("state", R"({"format": "moesim-papers-state", "absolute": {}})", {}, 0),
               Error);
}

TEST(Papers, ThePageKeepsWhatStandsAroundTheTables) {
  const std::string page =
      "before\n<!-- begin: written by moesim papers --page -->\nold\n<!-- end -->\nafter\n";
  const std::string text = papers_page("page.md", page, {three_times({10, 9, 8}, {10, 11, 8})});
  EXPECT_TRUE(text.starts_with("before\n<!-- begin"));
  EXPECT_TRUE(text.ends_with("<!-- end -->\nafter\n"));
  EXPECT_EQ(text.find("old"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("| b | 9 s | 11 s | +22.2 % |"));
  EXPECT_THAT(text, HasSubstr("Within 15 %: 2 of 3 figures."));
  EXPECT_THAT(text, HasSubstr("Contested pairs in the wrong order: b / a"));
  EXPECT_THROW(papers_page("page.md", "no marks", {}), Error);
  JudgedTable claims_less = three_times({10, 9, 8}, {10, 11, 8});
  claims_less.table.figures[2].outside = "unstated";
  EXPECT_THAT(papers_page("page.md", page, {claims_less}),
              HasSubstr("Within 15 %: 1 of 2 figures."));
}

TEST(Papers, ThePageNamesTwoPairsInTheWrongOrder) {
  const std::string page = "<!-- begin: written by moesim papers --page -->\n<!-- end -->\n";
  EXPECT_THAT(papers_page("page.md", page, {three_times({10, 20, 40}, {40, 20, 10})}),
              HasSubstr("Contested pairs in the wrong order: b / a; c / a, and 1 more.\n"));
  EXPECT_THAT(papers_page("page.md", page, {three_times({10, 20, 40}, {10, 20, 40})}),
              testing::Not(HasSubstr("wrong order")));
}

TEST(Papers, TheTextShowsTimesRatesAndRatios) {
  const PaperTable table = read_paper_table(PaperFile(node).path());
  PredictedTable predicted;
  for (const double value : {14e-6, 1e-3, 2e-3, 1.5}) predicted.push_back({value, "", ""});
  const std::string text = papers_text(judged({table}, {predicted}), "v").text();
  EXPECT_THAT(text, testing::ContainsRegex("small alltoall dispatch +13.88 us +14 us "));
  EXPECT_THAT(text, testing::ContainsRegex("large slow links dispatch +100 GB/s +80 GB/s "));
  EXPECT_THAT(text, testing::ContainsRegex("gain +2.00x +1.50x "));
}

TEST(Papers, TheDocumentHasEveryFigure) {
  const auto document =
      nlohmann::json::parse(papers_json({three_times({10, 20, 40}, {11, 20, 40})}, "v"));
  EXPECT_EQ(document["format"], "moesim-papers");
  EXPECT_EQ(document["tables"][0]["figures"].size(), 3u);
  EXPECT_NEAR(document["tables"][0]["figures"][0]["error"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(document["summary"]["order"]["pairs"], 3);
}

TEST(Papers, FrozenPredictionsAreScoredAgainstWhatWasMeasuredLater) {
  JudgedTable t = three_times({10, 20, 40}, {11, 20, 80});
  t.predicted[0].inputs = "abc";
  for (PaperFigure& f : t.table.figures) f.published.reset();
  const ShippedModelErrors errors{{0.8, 1.25}, {0.9, 1.1}};
  const std::string text =
      frozen_document({t}, {"v1", "hash", "2026-01-01T00:00:00Z"}, {errors, errors});
  const FrozenPredictions frozen = read_frozen("f", text);
  EXPECT_EQ(frozen.by.date, "2026-01-01T00:00:00Z");
  EXPECT_NEAR(frozen.figures.at("three/a").least, 8.8, 1e-12);
  EXPECT_NEAR(frozen.figures.at("three/a").most, 13.75, 1e-12);
  const ScoredPredictions result = scored({three_times({10, 20, 40}, {}).table}, frozen);
  EXPECT_NEAR(*result.tables[0].error(0), 0.1, 1e-12);
  EXPECT_EQ(result.known, 3);
  EXPECT_EQ(result.held, 2);
  std::string changed = text;
  changed.replace(changed.find("11.0"), 4, "10.0");
  EXPECT_THROW(read_frozen("f", changed), Error);
  EXPECT_THROW(read_frozen("f", "{}"), Error);
  EXPECT_THROW(read_frozen("f", "[]"), Error);
}

// All that is shipped can be read, and the fast part is there.
TEST(Papers, ShippedTablesAreRead) {
  const auto tables = shipped_paper_tables({});
  EXPECT_GT(tables.size(), 10u);
  int fast = 0;
  for (const PaperTable& t : tables) fast += t.fast ? 1 : 0;
  EXPECT_GT(fast, 4);
  EXPECT_EQ(shipped_paper_tables({"deepep-*"}).size(), 6u);
  EXPECT_THROW(shipped_paper_tables({"deepep-nomal"}), Error);
}

}  // namespace
}  // namespace moesim
