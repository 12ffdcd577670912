// SPDX-License-Identifier: Apache-2.0
// Rates, totals, pages and texts of iterations, word for word; quantiles of errors and what is kept
// of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/evidence/error_bars.h"
#include "sim/evidence/frozen.h"
#include "sim/evidence/iteration_report.h"
#include "sim/evidence/paper_case.h"
#include "sim/evidence/papers_report.h"
#include "sim/evidence/predict_iterations.h"
#include "sim/evidence/shipped_tables.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t one_gib = std::int64_t{1} << 30;

JudgedTable judged_iterations(const std::string& rows,
                              const std::vector<SimulatedIteration>& simulated,
                              const std::string& more = "") {
  PredictedTable predicted;
  for (const SimulatedIteration& s : simulated) {
    predicted.push_back({s.times.iteration.value, s.why, "", {}, s});
  }
  const std::string common =
      "common: {model: m, policy: p, gpus: 2, batch: {global: 2, sequence: 16}}\n";
  return judged({rows_table(rows, more + common)}, {predicted})[0];
}

SimulatedIteration in_memory(SimulatedIteration of, std::int64_t peak, std::int64_t memory) {
  of.peak = Bytes(peak * one_gib), of.memory = Bytes(memory * one_gib);
  return of;
}

SimulatedIteration not_simulated(const std::string& why) {
  SimulatedIteration of;
  of.why = why;
  return of;
}

TEST(IterationRates, AreModelFlopOfAGpuInASecond) {
  SimulatedIteration unknown = iteration_of(4, 1, 0, {});
  unknown.flop_per_token = 0;
  JudgedTable t = judged_iterations(
      "- {name: a, published: 4 s}\n- {name: b, published: 4 s}\n- {name: c, published: 4 s}\n",
      {iteration_of(4, 1, 0, {}), unknown, iteration_of(4, 1, 0, {})});
  t.predicted[2].iteration.reset();  // a frozen one
  EXPECT_EQ(t.simulated_rate(0), 32 * 1e9 / 2 / 4);
  EXPECT_EQ(t.simulated_rate(1), 32. / 2 / 4);
  EXPECT_EQ(t.simulated_rate(2), 32. / 2 / 4);
  EXPECT_EQ(iteration_summary(t).rows, 3);
  EXPECT_EQ(memory_error(t, 2), std::nullopt);
  t.table.serving = true;
  EXPECT_EQ(t.simulated_rate(0), 1 / 4.);
}

/// Rows a to d of one table: 25 % too long, not predicted, as published, without a published time.
JudgedTable four_rows() {
  SimulatedIteration lacking = in_memory(iteration_of(10, 6, 1, {}), 90, 80);
  lacking.lacks_routing = true;
  return judged_iterations(
      "- {name: a, published: 4 s, peak_memory: 32 GiB, fits: true, turns: {1F: 2 s}}\n"
      "- {name: b, published: 2 s, peak_memory: 32 GiB, fits: true}\n"
      "- {name: c, published: 10 s, fits: true}\n- {name: d}\n",
      {in_memory(iteration_of(5, 3, 0, {1, 3}), 40, 80), not_simulated("too large"), lacking,
       iteration_of(6, 3, 0, {})},
      "gains: [[c, a], [a, b]]\nassumed: [one thing]\nmisses: [another]\n");
}

/// A table whose times do not count.
JudgedTable of_memory() {
  JudgedTable t = judged_iterations(
      "- {name: e, peak_memory: 40 GiB, published: 1 s}\n- {name: f, peak_memory: 40 GiB}\n"
      "- {name: g, fits: false}\n- {name: h, fits: true}\n",
      {in_memory(iteration_of(1, 1, 0, {}), 46, 80), in_memory(iteration_of(1, 1, 0, {}), 47, 80),
       in_memory(iteration_of(1, 1, 0, {}), 80, 80), not_simulated("gone")},
      "outside: first steps\n");
  t.table.name = "peaks";
  return t;
}

TEST(IterationTotals, AreOfTablesWhoseTimesCount) {
  const IterationSummary sum = iteration_summary(four_rows());
  EXPECT_THAT((std::vector{sum.rows, sum.predicted, sum.order.pairs, sum.order.right}),
              ElementsAre(4, 3, 1, 1));
  EXPECT_THAT(sum.errors.errors, ElementsAre(0.25, 0));
  EXPECT_THAT(sum.memory, ElementsAre(0.25));
  EXPECT_THAT((std::vector{sum.fits.pairs, sum.fits.right}), ElementsAre(2, 1));
  ASSERT_EQ(sum.gains.size(), 1U) << "b was not simulated";
  EXPECT_EQ(gain_words(sum), "2.00 / 2.50");
  EXPECT_EQ(memory_words(sum), "25.0 %; fits or not 1 of 2");
  EXPECT_EQ(memory_words({}), "-");
  EXPECT_EQ(gain_words({}), "-");
  const IterationSummary total = total_of_iterations({four_rows(), of_memory(), four_rows()});
  EXPECT_THAT((std::vector{total.rows, total.predicted, total.order.pairs}), ElementsAre(8, 6, 2));
  EXPECT_EQ(total_words(total),
            "4 of 8 published iterations are predicted: median error 12.5 %, 90 % within 25.0 %; "
            "100 % of pairs in order (2 of 2); balanced, for want of their recorded routing "
            "(--traces): rows/c, rows/c");
  EXPECT_EQ(total_of_iterations({four_rows()}, true).rows, 0);
}

TEST(IterationTotals, SpeedupsHaveTheErrorsOfBothRows) {
  const auto errors = errors_of_speedups(four_rows());
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_NEAR(errors.at("rows/a over c"), 0.25, 1e-12);
  EXPECT_NEAR(errors.at("rows/c over a"), -0.2, 1e-12);
}

TEST(IterationTables, PagesAreWordForWordWhatTheRowsSay) {
  EXPECT_EQ(
      iterations_page({four_rows(), of_memory()}),
      R"(2 of 4 published iterations are predicted: median error 12.5 %, 90 % within 25.0 %; 100 % of pairs in order (1 of 1); balanced, for want of their recorded routing (--traces): rows/c.

| table | rows | median error | 90 % within | pairs in order | gains, simulated / published | peak memory, at most |
|---|---|---|---|---|---|---|
| rows | 3 of 4 | 12.5 % | 25.0 % | 1 of 1 | 2.00 / 2.50 | 25.0 %; fits or not 1 of 2 |
| peaks | 3 of 4 | not judged | - | - | - | 17.5 %; fits or not 0 of 1 |

Rows that are off by more than 15 %, or have more than a time:

| table | row | simulated, s | published, s | error | most of it |
|---|---|---|---|---|---|
| rows | a | 5.00 | 4.00 | +25.0 % | experts 60 %; 1F 2.00 of 2.00 s (+0 %); 40.00/32.00 GiB, +25.0 %; fits |
| rows | b | - | - | - | not predicted: too large |
| rows | d | 6.00 | - | - | experts 50 % |

| table | row | peak memory |
|---|---|---|
| peaks | f | 47.00/40.00 GiB, +17.5 % |
| peaks | g | 80.00 GiB; fits, published out of memory |
| peaks | h | not predicted: gone |

- rows: one thing
- rows: another
)");
}

TEST(IterationTables, TextsAreWordForWordWhatTheRowsSay) {
  EXPECT_EQ(squeezed(iterations_text({four_rows(), of_memory()}).text()), R"(# published iterations
table row simulated published error note most of it peak memory
rows a 5 s 4 s +25.0 % experts 60 %; 1F 2.00 of 2.00 s (+0 %) 40.00/32.00 GiB, +25.0 %; fits
rows b - 2 s - - -
rows c 10 s 10 s +0.0 % experts 60 % 90.00 GiB; out of memory, published fits
rows d 6 s - - experts 50 % -
peaks e 1 s 1 s +0.0 % outside experts 100 % 46.00/40.00 GiB, +15.0 %
peaks f 1 s - - outside experts 100 % 47.00/40.00 GiB, +17.5 %
peaks g 1 s - - outside experts 100 % 80.00 GiB; fits, published out of memory
peaks h - - - outside - -
# rows, b: too large
# peaks, h: gone

# errors are absolute values; in order: pairs of a table that differ by more than 5 % as published, as simulated too
# gains: simulated / published
table rows median 90 % in order gains peak memory
rows 3 of 4 12.5 % 25.0 % 1 of 1 2.00 / 2.50 25.0 %; fits or not 1 of 2
peaks 3 of 4 - - - - 17.5 %; fits or not 0 of 1
2 of 4 published iterations are predicted: median error 12.5 %, 90 % within 25.0 %; 100 % of pairs in order (1 of 1); balanced, for want of their recorded routing (--traces): rows/c
)");
}

TEST(IterationTables, DocumentsHaveTheStageThatIsPublished) {
  const JudgedTable t =
      judged_iterations("- {name: a, published: 4 s, turns: {1F: 2 s}, turns_of_stage: 1}\n",
                        {iteration_of(5, 3, 0, {1, 3})});
  EXPECT_EQ(row_json(t, 0)["turns_s"]["1F"], 3);
  EXPECT_EQ(parts_words(t, 0), "experts 60 %; 1F 3.00 of 2.00 s (+50 %)");
  EXPECT_EQ(iteration_summary_json(iteration_summary(four_rows())).dump(),
            R"({"rows":4,"predicted":3,"timed":true,"order":{"pairs":1,"right":1},"median":0.125,)"
            R"("percentile_90":0.25,"gains":[{"slower":"c","faster":"a","simulated":2.0,)"
            R"("published":2.5}],"peak_memory_errors":[0.25],"fits":{"rows":2,"right":1},)"
            R"("lack_routing":["rows/c"]})");
}

TEST(KeptErrors, AreOfAllThatCounts) {
  JudgedTable t = four_rows();
  t.predicted[0].iteration->network = "infiniband";
  EXPECT_EQ(nlohmann::ordered_json::parse(papers_state({t, of_memory()})).dump(),
            R"({"format":"moesim-papers-state","absolute":{"rows/a":0.25,"rows/c":0.0},)"
            R"("relative":{"rows/a over c":0.25,"rows/c over a":-0.2},"headlines":{},"orders":{},)"
            R"("networks":["infiniband"]})");
}

TEST(KeptErrors, AreReadAsTheyWereWritten) {
  const auto read = [](const std::string& inner) {
    return read_papers_state("f", R"({"format": "moesim-papers-state", )" + inner + "}");
  };
  const StoredErrors of = read(
      R"("absolute": {"t/a": -0.5}, "relative": {"t/b": 2}, "headlines": {"t/c": 0.1},
         "networks": ["n", 3], "orders": {"t/d": true, "t/e": false})");
  EXPECT_EQ(of.absolute.at("t/a") + of.relative.at("t/b") + of.headlines.at("t/c"), -0.5 + 2 + 0.1);
  EXPECT_THAT(of.networks, ElementsAre("n"));
  EXPECT_THAT(of.right_orders, ElementsAre("t/d"));
  for (const char* const wrong :
       {R"("absolute": {}, "relative": [])", R"("relative": {})",
        R"("absolute": {"a": -1}, "relative": {})", R"("absolute": {"a": "b"}, "relative": {})",
        R"("absolute": {}, "relative": {}, "headlines": [])"}) {
    EXPECT_THROW(read(wrong), Error) << wrong;
  }
}

TEST(KeptErrors, ThatGrewAreSaidOnce) {
  const std::string stored = papers_state({four_rows()});
  const auto grown = [&](double slack, const std::function<void(JudgedTable&)>& change) {
    JudgedTable t = four_rows();
    change(t);
    return grown_errors("f", stored, {t}, slack);
  };
  EXPECT_THAT(grown(0, [](JudgedTable&) {}), IsEmpty());
  EXPECT_THAT(grown(0.25, [](JudgedTable& t) { t.predicted[0].value = 6; }), IsEmpty());
  EXPECT_THAT(grown(0.24, [](JudgedTable& t) { t.predicted[0].value = 6; }),
              ElementsAre("rows/a: was +25.0 %, is +50.0 %"));
  EXPECT_THAT(grown(1, [](JudgedTable& t) { t.predicted[0].why = "gone"; }),
              ElementsAre("rows/a: was +25.0 %, is not predicted"));
}

/// A twentieth of 39 tables and the one that is asked for is two of them: one is beyond.
TEST(QuantilesOfErrors, LeaveATwentiethOfAllTablesAtEachEnd) {
  ErrorsByTable errors;
  for (int i = 1; i <= 38; ++i) errors[fmt::format("{:02}", i)] = {i / 100.};
  EXPECT_DOUBLE_EQ(model_error(errors).low, 1.02);
  EXPECT_DOUBLE_EQ(model_error(errors).high, 1.37);
  while (errors.size() > 18) errors.erase(errors.begin());
  EXPECT_DOUBLE_EQ(model_error(errors).low, 1.21);
  EXPECT_DOUBLE_EQ(model_error(errors).high, 1.38);
  EXPECT_THROW(model_error({}), std::invalid_argument);
  const ModelError error{0.5, 4};
  EXPECT_EQ(error.least(8), 2);
  EXPECT_EQ(error.most(8), 16);
  EXPECT_EQ(by_table({{"t/a", 1}, {"t/b/c", 2}, {"u/a", 3}}),
            (ErrorsByTable{{"t", {1, 2}}, {"u", {3}}}));
  EXPECT_EQ(pairs_within({{"t", {0, 1, 3}}}).at("t"),
            (std::vector<double>{-0.5, -0.75, 1, -0.5, 3, 1}));
}

TEST(IntervalsOfMeans, StretchByWhatNeighboursShare) {
  std::vector<double> line(20);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = static_cast<double>(i);
  EXPECT_NEAR(stretch_of_variance(line), 1.8 / 0.2, 1e-12) << "at most";
  EXPECT_NEAR(stretch_of_variance({1, 2, 3, 4, 5, 6, 7, 8}), 7, 1e-12);  // r = 5/8 + 1/8
  EXPECT_EQ(stretch_of_variance({1, 2, 1, 2}), 1);
  EXPECT_EQ(stretch_of_variance({1, 2}), 1);
  EXPECT_EQ(stretch_of_variance({3, 3, 3}), 1);
  EXPECT_EQ(student_95(3), 2.3534);
  EXPECT_EQ(student_95(0), student_95(1));
  EXPECT_EQ(steps_to_tell({1.0009, 0.2}, 10), std::nullopt);
  EXPECT_EQ(steps_to_tell({1.5, 0.25}, 10), 3);  // a quarter of ten, upwards
  EXPECT_EQ(steps_to_tell({0.5, 0.5}, 10), 10);
}

TEST(EvenExchangesOf, HaveTokensOfAtMostAWidth) {
  const auto of = [](std::int64_t bytes, int ranks) {
    const EvenExchange even = even_exchange(Bytes(bytes), ranks);
    return std::pair(even.tokens, even.hidden);
  };
  EXPECT_EQ(of(8 * 4 * 1000, 8), std::pair(std::int64_t{8}, std::int64_t{1000}));
  EXPECT_EQ(of(4LL * 4 * 65536, 4), std::pair(std::int64_t{4}, std::int64_t{65536}));
  EXPECT_EQ(of(4LL * 4 * 65538, 4), std::pair(std::int64_t{8}, std::int64_t{32769}));
  EXPECT_EQ(of(1, 4), std::pair(std::int64_t{4}, std::int64_t{1}));
}

TEST(EvenExchangesOf, ASettingBecomeItsFlags) {
  const auto of = [](const std::vector<Override>& flags, bool even) {
    PaperTable table;
    table.settings = {{"s", "", flags, {}}};
    if (even) table.settings[0].all_to_all = Bytes(4 * 4 * 2 * 10);
    const PaperTraces traces({table}, 1);
    std::string text;
    for (const Override& flag : traces.flags(table.settings[0])) {
      const bool trace = flag.path == "trace";
      text +=
          flag.path + "=" + (trace ? flag.value.substr(flag.value.rfind('/')) : flag.value) + " ";
    }
    return text;
  };
  EXPECT_EQ(of({{"ep", "4", ""}}, true),
            "ep=4 trace=/even-4-4 model=tiny-moe layers=recorded tokens_per_rank=4 attention=false "
            "set=model.experts=4 set=model.top_k=1 set=model.hidden=20 ");
  EXPECT_EQ(of({{"ep", "4", ""}}, false), "ep=4 ");
  for (const auto& flags : {std::vector<Override>{}, {{"ep", "0", ""}}, {{"ep", "x", ""}}}) {
    EXPECT_THROW(of(flags, true), Error);
  }
}

TEST(FrozenFigures, AreHeldInsideTheirIntervals) {
  JudgedTable t = judged_iterations("- {name: a}\n- {name: b}\n",
                                    {iteration_of(8, 1, 0, {}), not_simulated("too large")});
  const ShippedModelErrors steps{{0.1, 10}, {0.1, 10}}, rows{{0.5, 2}, {0.1, 10}};
  const std::string text = frozen_document({t}, {"v", "hash", "now"}, {steps, rows});
  const auto document = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(
      document["tables"][0]["figures"].dump(),
      R"([{"name":"a","kind":"absolute","simulated":8.0,"interval_90":[4.0,16.0],"inputs":""},)"
      R"({"name":"b","not_predicted":"too large"}])");
  const FrozenPredictions frozen = read_frozen("f", text);
  EXPECT_EQ(frozen.by.moesim + frozen.by.program + frozen.by.date, "vhashnow");
  for (const auto& [published, held] :
       {std::pair(4., 1), {16., 1}, {3.99, 0}, {16.01, 0}, {8., 1}}) {
    t.table.figures[0].published = published;
    const ScoredPredictions scores = scored({t.table}, frozen);
    EXPECT_EQ(scores.known, 1);
    EXPECT_EQ(scores.held, held) << published;
    EXPECT_EQ(scores.tables[0].predicted[1].why, "was not frozen");
  }
  EXPECT_THROW(read_frozen("f", R"({"format": "moesim-frozen-predictions"})"), Error);
}

TEST(Microbatches, AreFewerOnlyWhereMuchIsLeftOut) {
  const auto fewer = [](int stages, int chunks, int all) {
    const auto of = fewer_microbatches(stages, chunks, all);
    return of ? std::pair(of->first, of->second) : std::pair(0, 0);
  };
  EXPECT_EQ(fewer(4, 1, 100), std::pair(16, 24));   // 4 x max(2, 4), and 4 x 2 more
  EXPECT_EQ(fewer(16, 1, 100), std::pair(32, 48));  // two rounds, and one more
  EXPECT_EQ(fewer(16, 8, 200), std::pair(64, 80));  // four rounds
  EXPECT_EQ(fewer(5, 1, 100), std::pair(20, 25));
  EXPECT_EQ(fewer(4, 1, 30), std::pair(0, 0));  // 1.25 x 24
  EXPECT_EQ(fewer(4, 1, 31), std::pair(16, 24));
}

TEST(NamesAskedFor, MayEndInAStar) {
  EXPECT_TRUE(is_meant("abc", "abc"));
  EXPECT_TRUE(is_meant("abc", "ab*"));
  EXPECT_TRUE(is_meant("abc", "*"));
  EXPECT_TRUE(is_meant("abc", "abc*"));
  EXPECT_FALSE(is_meant("abc", "ab"));
  EXPECT_FALSE(is_meant("abc", "b*"));
  EXPECT_FALSE(is_meant("abc", "abcd*"));
}

}  // namespace
}  // namespace moesim
