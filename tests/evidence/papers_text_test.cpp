// SPDX-License-Identifier: Apache-2.0
// Pairs, totals, pages, texts and documents of one published table, word for word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/evidence/headline_table.h"
#include "sim/evidence/papers_report.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string node_text = R"(title: A node
source: made up
misses: [One reason.]
settings: {s: {}, t: {}}
figures:
- {setting: s, policy: a, measure: step, published: 10 s}
- {setting: s, policy: b, measure: step, published: 20 s}
- {setting: s, policy: c, measure: step, published: 40 s}
- {setting: t, policy: a, measure: dispatch, bytes: 8 GB, published: 4 GB/s}
- {setting: s, policy: a, measure: step, over: b, published: 2, name: gain, spread: 0.1}
- {setting: t, policy: b, measure: step, published: 1 s, fitted: a rate}
- {setting: t, policy: c, measure: step, published: 1 s, outside: unlike}
- {setting: t, policy: d, measure: step}
orders:
- {setting: s, slower: a, faster: b, source: its text}
- {setting: s, slower: a, faster: c, source: its text}
)";

JudgedTable judged_node(const std::string& text = node_text) {
  PredictedTable predicted;
  for (const double value : {10.0, 30.0, 20.0, 4.0, 0.5, 2.0, 4.0, 0.0, 0.9, 0.0}) {
    predicted.push_back({value, "", ""});
  }
  predicted[7].why = "too large", predicted[9].why = "gone";
  return judged({parse_paper_table(text, "node.yaml")}, {predicted})[0];
}

using PairWords = std::tuple<std::size_t, std::optional<std::size_t>, bool, bool>;

std::vector<PairWords> pairs_of(const JudgedTable& t) {
  std::vector<PairWords> list;
  for (const PaperPair& p : t.pairs) list.emplace_back(p.first, p.second, p.contested, p.right);
  return list;
}

TEST(PaperPairs, AreOfFiguresThatCountAndCompare) {
  EXPECT_THAT(pairs_of(judged_node()),
              ElementsAre(PairWords{1, 0, true, true}, PairWords{2, 0, true, true},
                          PairWords{2, 1, true, false}, PairWords{3, 0, false, true},
                          PairWords{3, 1, false, true}, PairWords{3, 2, false, true},
                          PairWords{4, std::nullopt, true, false}));
  for (const PaperPair& pair : judged_node("contested: false\n" + node_text).pairs) {
    EXPECT_FALSE(pair.contested);
  }
}

/// The pairs of speedups, published and simulated as given.
std::vector<PairWords> pairs_of_speedups(const std::string& figures,
                                         const std::vector<double>& simulated) {
  PredictedTable predicted;
  for (const double value : simulated) predicted.push_back({value, "", ""});
  const std::string text = "title: x\nsource: x\nsettings: {s: {}, t: {}}\nfigures:\n" + figures;
  return pairs_of(judged({parse_paper_table(text, "x.yaml")}, {predicted})[0]);
}

TEST(PaperPairs, OfSpeedupsAreOverOneVariantByOneMeasure) {
  const std::string a = "- {setting: s, policy: a, over: x, measure: step, published: 2}\n";
  const auto with = [&](const std::string& other) { return pairs_of_speedups(a + other, {3, 3}); };
  // Each is ahead of its baseline; of two that are simulated alike neither is ahead.
  const PairWords first{0, std::nullopt, true, true}, second{1, std::nullopt, true, true};
  EXPECT_THAT(with("- {setting: s, policy: b, over: x, measure: step, published: 4}\n"),
              ElementsAre(first, second, PairWords{1, 0, true, false}));
  EXPECT_THAT(with("- {setting: t, policy: b, over: x, measure: step, published: 4}\n"),
              ElementsAre(first, second, PairWords{1, 0, false, false}));
  EXPECT_THAT(with("- {setting: s, policy: a, over: x, measure: step, published: 4, name: n}\n"),
              ElementsAre(first, second, PairWords{1, 0, false, false}));
  EXPECT_THAT(with("- {setting: s, policy: b, over: y, measure: step, published: 4}\n"),
              ElementsAre(first, second));
  EXPECT_THAT(with("- {setting: s, policy: b, over: x, measure: layer, published: 4}\n"),
              ElementsAre(first, second));
  EXPECT_THAT(with("- {setting: s, policy: b, measure: load, published: 4}\n"), ElementsAre(first));
}

TEST(PaperPairs, DifferByMoreThanFivePercent) {
  const auto count = [](const std::string& slower) {
    return pairs_of_speedups(
               "- {policy: a, setting: s, measure: step, published: 10 s}\n"
               "- {policy: b, setting: s, measure: step, published: " +
                   slower + "}\n",
               {1, 2})
        .size();
  };
  EXPECT_EQ(count("10.5 s"), 0U);
  EXPECT_EQ(count("10.6 s"), 1U);
  EXPECT_EQ(count("9.5 s"), 1U);
  EXPECT_EQ(count("9.6 s"), 0U);
}

TEST(PaperTotals, AddAllOfTheirTables) {
  const JudgedTable t = judged_node();
  const PaperSummary sum = t.summary(), total = total_of({t, t});
  EXPECT_THAT(sum.absolute.errors, ElementsAre(0, 0.5, 0.5, 1));
  EXPECT_THAT(sum.relative.errors, ElementsAre(0.75));
  EXPECT_THAT((std::vector{sum.figures, sum.predicted, sum.fitted, sum.outside}),
              ElementsAre(8, 7, 1, 1));
  EXPECT_EQ(total.absolute.errors.size(), 8U);
  EXPECT_EQ(total.relative.errors.size(), 2U);
  EXPECT_THAT((std::vector{total.figures, total.predicted, total.fitted, total.outside}),
              ElementsAre(16, 14, 2, 2));
  EXPECT_THAT(
      (std::vector{total.all.pairs, total.all.right, total.contested.pairs, total.contested.right}),
      ElementsAre(14, 10, 8, 4));
}

TEST(PaperTotals, NinetyPercentDoNotExceedTheirPercentile) {
  ErrorSummary errors;
  EXPECT_EQ(errors.median(), 0);
  EXPECT_EQ(errors.percentile_90(), 0);
  for (int i = 11; i > 1; --i) errors.errors.push_back(i);
  EXPECT_EQ(errors.percentile_90(), 10);  // of ten the ninth
  errors.errors.push_back(1);
  EXPECT_EQ(errors.percentile_90(), 10);  // of eleven the tenth
  EXPECT_EQ(errors.median(), 6);
}

TEST(PaperTotals, OrdersAndErrorsNeedBothFigures) {
  JudgedTable t = judged_node();
  EXPECT_EQ(t.in_order(8), false);
  EXPECT_EQ(t.in_order(9), std::nullopt);
  EXPECT_EQ(t.in_order(0), std::nullopt) << "a time";
  EXPECT_EQ(t.in_order(4), false);
  EXPECT_EQ(t.error(7), std::nullopt);
  t.table.figures[4].published = 1;
  EXPECT_EQ(t.in_order(4), std::nullopt) << "neither is ahead";
  t.table.figures[4].published = 0.5, t.table.figures[4].up_to = 1;
  EXPECT_EQ(t.in_order(4), std::nullopt) << "a range that ends at 1";
  t.table.figures[4].up_to = 0.9;
  EXPECT_EQ(t.in_order(4), true);
  t.predicted[4].value = 1;
  EXPECT_EQ(t.in_order(4), true) << "not ahead either";
}

const char* const marks = "<!-- begin: written by moesim papers --page -->\n<!-- end -->\n";

TEST(PaperPages, AreWordForWordWhatTheTableSays) {
  EXPECT_EQ(papers_page("p.md", marks, {judged_node()}),
            R"(<!-- begin: written by moesim papers --page -->
| table | absolute figures | median error | 90 % within | relative figures | median error | 90 % within | pairs in order | contested |
|---|---|---|---|---|---|---|---|---|
| [node](#node) | 4 | 50.0 % | 100.0 % | 1 | 75.0 % | 75.0 % | 5 of 7 | 2 of 4 |
| **all** | 4 | 50.0 % | 100.0 % | 1 | 75.0 % | 75.0 % | 5 of 7 | 2 of 4 |
| with the 1 figures outside | 5 | 50.0 % | 300.0 % | 1 | 75.0 % | 75.0 % | 8 of 11 | 2 of 4 |

### node

A node. Source: made up.

| figure | published | simulated | error |
|---|---|---|---|
| s b step | 20 s | 30 s | +50.0 % |
| s c step | 40 s | 20 s | -50.0 % |
| t a dispatch | 4 GB/s | 2 GB/s | +100.0 % |
| gain | 2.00 | 0.50 | -75.0 % |
| t b step | 1 s | 2 s | +100.0 %, fitted |
| t d step | - | too large | - |

Outside: 1 figure.

Within 15 %: 1 of 7 figures.

Contested pairs in the wrong order: s c step / s b step; gain / b.

Published orders: a is slower than b on s (wrong: 0.90); a is slower than c on s (not simulated).

- One reason.

<!-- end -->
)");
}

TEST(PaperPages, OfATableWithoutMistakesAreShort) {
  PaperTable table = parse_paper_table(
      "title: x\nsource: y\nsettings: {s: {}}\nfigures:\n"
      "- {setting: s, policy: a, measure: step, published: 10 s}\n"
      "orders: [{setting: s, slower: a, faster: b, source: z}]\n",
      "few.yaml");
  const JudgedTable t = judged({table}, {{{11.5, "", ""}, {1.5, "", ""}}})[0];
  EXPECT_THAT(papers_page("p.md", marks, {t}),
              HasSubstr("| [few](#few) | 1 | 15.0 % | 15.0 % | - | - | - | - | - |\n"
                        "| **all** | 1 | 15.0 % | 15.0 % | - | - | - | - | - |\n\n"
                        "### few\n\nx. Source: y.\n\nAll within 15 %.\n\n"
                        "Published orders: a is slower than b on s (right).\n\n<!-- end -->\n"));
  EXPECT_THROW(papers_page("p.md", "<!-- end -->\n", {t}), Error);
  EXPECT_THROW(papers_page("p.md", "<!-- begin: written by moesim papers --page -->\n", {t}),
               Error);
}

TEST(PaperTexts, AreWordForWordWhatTheTableSays) {
  EXPECT_EQ(squeezed(papers_text({judged_node()}, "v").text()),
            R"(# moesim v: published figures against simulated ones
table figure published simulated error note
node s a step 10 s 10 s +0.0 %
node s b step 20 s 30 s +50.0 %
node s c step 40 s 20 s -50.0 %
node t a dispatch 4 GB/s 2 GB/s +100.0 %
node gain 2.00x 0.50x -75.0 %
node t b step 1 s 2 s +100.0 % fitted
node t c step 1 s 4 s +300.0 % outside
node t d step - - -
# node, t d step: too large
# node, a is slower than c on s: gone
# outside: node, t c step: unlike

# errors are absolute values; in order: pairs that differ by more than 5 % as published, as simulated too
# contested: of these, policies or variants of one in the same setting
table kind figures median 90 % in order contested
node absolute 4 50.0 % 100.0 % 5 of 7 2 of 4
node relative 1 75.0 % 75.0 % 5 of 7 2 of 4
all absolute 4 50.0 % 100.0 % 5 of 7 2 of 4
all relative 1 75.0 % 75.0 % 5 of 7 2 of 4
with those outside absolute 5 50.0 % 300.0 % 8 of 11 2 of 4
with those outside relative 1 75.0 % 75.0 % 8 of 11 2 of 4

# orders that sources state, whatever their size: they count apart
table published order simulated speedup order
node a is slower than b on s 0.90x WRONG
node a is slower than c on s - -
# 0 of 1 hold
# wrong: node, a is slower than b on s (its text)
)");
}

// Names are to the left, figures to the right.
TEST(PaperTexts, HaveTheirColumnsInLine) {
  const std::string text = papers_text({judged_node()}, "v").text();
  EXPECT_THAT(text,
              HasSubstr("\nnode                relative        1  75.0 %   75.0 %    5 of 7     "
                        "2 of 4\n"));
  EXPECT_THAT(text, HasSubstr("\nnode   a is slower than b on s              0.90x  WRONG\n"));
  PaperTable only = parse_paper_table(
      "title: x\nsource: y\nsettings: {s: {}}\nfigures: []\n"
      "orders: [{setting: s, slower: a, faster: b, source: z}]\n",
      "few.yaml");
  EXPECT_THAT(papers_text(judged({only}, {{{1.5, "", ""}}}), "v").text(),
              HasSubstr("# 1 of 1 hold"));
}

TEST(PaperDocuments, HaveAllOfATable) {
  auto document = nlohmann::ordered_json::parse(papers_json({judged_node()}, "v"));
  auto table = document["tables"][0];
  const auto figures = table["figures"];
  EXPECT_EQ(figures[4].dump(),
            R"({"name":"gain","setting":"s","policy":"a","measure":"step","kind":"relative",)"
            R"("published":2.0,"in_order":false,"over":"b","spread":0.1,"simulated":0.5,)"
            R"("error":-0.75})");
  EXPECT_EQ(figures[5]["fitted"], "a rate");
  EXPECT_EQ(figures[6]["outside"], "unlike");
  EXPECT_EQ(figures[7].dump(),
            R"({"name":"t d step","setting":"t","policy":"d","measure":"step","kind":"absolute",)"
            R"("published":null,"not_predicted":"too large"})");
  EXPECT_EQ(figures[8].dump(),
            R"({"name":"a is slower than b on s","setting":"s","policy":"b","measure":"step",)"
            R"("kind":"relative","published":null,"order_source":"its text","in_order":false,)"
            R"("over":"a","simulated":0.9,"error":null})");
  EXPECT_EQ(table["contested_pairs"].dump(),
            R"([{"first":"s b step","second":"s a step","right":true},)"
            R"({"first":"s c step","second":"s a step","right":true},)"
            R"({"first":"s c step","second":"s b step","right":false},)"
            R"({"first":"gain","second":"b","right":false}])");
  const std::string sum = R"({"absolute":{"figures":4,"median":0.5,"percentile_90":1.0},)"
                          R"("relative":{"figures":1,"median":0.75,"percentile_90":0.75},)"
                          R"("order":{"pairs":7,"right":5},"contested":{"pairs":4,"right":2}})";
  EXPECT_EQ(table["summary"].dump(), sum);
  EXPECT_EQ(document["summary"].dump(), sum);
  EXPECT_EQ(document["with_those_outside"]["absolute"].dump(),
            R"({"figures":5,"median":0.5,"percentile_90":3.0})");
  table.erase("figures"), table.erase("contested_pairs"), table.erase("summary"),
      table.erase("xxh3");
  EXPECT_EQ(table.dump(), R"({"name":"node","title":"A node","source":"made up"})");
  for (const char* const key : {"summary", "with_those_outside", "tables"}) document.erase(key);
  EXPECT_EQ(document.dump(),
            R"({"format":"moesim-papers","format_version":1,"moesim":"v","order_margin":0.05})");
}

const std::string headline_text = R"(title: Claims
source: made up
headlines: true
settings: {s: {scenario: one}, t: {scenario: two}}
figures:
- {system: A, claim: faster, setting: s, policy: a, over: b, measure: step, published: [1.5, 2], source: T1, why: Why A.}
- {system: B, claim: slower, setting: t, policy: a, over: b, measure: step, published: 0.5, source: T2, why: Why B., outside: unlike}
- {system: C, claim: bubble, setting: t, policy: a, measure: bubble, published: formula, source: T3, why: Why C.}
- {system: D, claim: time, setting: s, policy: a, measure: step, published: 4 s, source: T4, why: Why D.}
- {system: E, claim: time, setting: s, policy: a, measure: step, source: T5, why: Why E.}
)";

TEST(HeadlineTexts, AreWordForWordWhatTheTableSays) {
  PredictedTable predicted = {
      {1.0, "", ""}, {1.25, "", ""}, {2.3, "", ""}, {0, "gone", ""}, {3, "", ""}};
  predicted[2].published = 2;
  const JudgedTable t = judged({parse_paper_table(headline_text, "claims.yaml")}, {predicted})[0];
  const std::string count = "1 of 2 sizes within 15 %, 0 of 2 orders as published, 1 not simulated";
  EXPECT_EQ(squeezed(headlines_text({judged_node(), t}).text()),
            R"(# published headlines; moesim compare SCENARIO shows each
system claim scenario published simulated off by order
A faster one 1.50 to 2.00 1.00 -33.3 % WRONG
B slower two 0.50 1.25 +150.0 % (outside) WRONG
C bubble two 2 s (formula) 2.3 s +15.0 % -
D time one 4 s - - -
E time one - 3 s - -
# )" + count + R"(
# A, faster (T1): Why A.
# B, slower (T2): Why B. Outside: unlike.
# C, bubble (T3): Why C.
# D, time (T4): not simulated: gone
# E, time (T5): Why E.
)");
  EXPECT_THAT(
      papers_page("p.md", marks, {t}),
      testing::AllOf(HasSubstr("| A | faster | `one` | 1.50 to 2.00 | 1.00 | -33.3 % | WRONG |\n"),
                     HasSubstr("| C | bubble | `two` | 2 s (formula) | 2.3 s | +15.0 % | - |\n"),
                     HasSubstr("\n\n" + count + ".\n<!-- end -->")));
}

TEST(HeadlineTexts, WhatIsHardlyOffHasNoSign) {
  const PaperTable table = parse_paper_table(headline_text, "claims.yaml");
  const auto off = [&](double simulated) {
    PredictedTable predicted(5, {1, "", ""});
    predicted[3].value = simulated;
    return squeezed(headlines_text(judged({table}, {predicted})).text());
  };
  EXPECT_THAT(off(4.0019), HasSubstr("D time one 4 s 4.002 s 0.0 % -\n"));
  EXPECT_THAT(off(3.9981), HasSubstr(" 0.0 % -\n"));
  EXPECT_THAT(off(4.0021), HasSubstr(" +0.1 % -\n"));
}

}  // namespace
}  // namespace moesim
