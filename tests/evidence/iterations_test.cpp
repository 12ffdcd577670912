// SPDX-License-Identifier: Apache-2.0
// Published iterations: how they are summed up, stored and put on a page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/evidence/iteration_report.h"
#include "sim/evidence/model_error.h"
#include "sim/evidence/papers_report.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Rows of 16 tokens on one GPU, simulated as given; none: not predicted.
JudgedTable judged_rows(const std::string& rows, const std::vector<SimulatedIteration>& simulated,
                        const std::string& more = "") {
  const PaperTable table = rows_table(
      rows, more + "common: {model: m, policy: p, gpus: 1, batch: {global: 1, sequence: 16}}\n");
  PredictedTable predicted;
  for (const SimulatedIteration& s : simulated) {
    predicted.push_back({s.times.iteration.value, s.why, "", {}, s});
  }
  return judged({table}, {predicted})[0];
}

TEST(IterationSummaries, OrderIsThatOfRates) {
  // 2 and 1.96 are too near each other; d is measured behind b and c, and simulated ahead of both.
  const JudgedTable t = judged_rows(
      "- {name: a, published: 4 s}\n- {name: b, published: 2 s}\n"
      "- {name: c, published: 1.96 s}\n- {name: d, published: 3 s}\n",
      {iteration_of(4, 1, 0, {}), iteration_of(2, 1, 0, {}), iteration_of(2.1, 1, 0, {}),
       iteration_of(1.5, 1, 0, {})});
  EXPECT_EQ(iteration_summary(t).order.pairs, 5);
  EXPECT_EQ(iteration_summary(t).order.right, 3);
}

// Other batches take other times: by the time x is ahead, by the rate y is.
TEST(IterationSummaries, RowsOfOneScenarioAreNoPair) {
  const JudgedTable t = judged_rows(
      "- {name: x, published: 4 s}\n- {name: y, batch: {global: 4}, published: 8 s}\n"
      "- {name: x-again, published: 5 s}\n",
      {iteration_of(4, 1, 0, {}), iteration_of(8, 1, 0, {}), iteration_of(4, 1, 0, {})});
  EXPECT_EQ(iteration_summary(t).order.pairs, 2);
  EXPECT_EQ(iteration_summary(t).order.right, 2);
}

// Passes are in order by their times, and only those of one batch: more sequences take longer
// whatever the machine. Of three pairs of 8 sequences two are right; 16 and 8 are no pair.
TEST(ServingSummaries, OrderIsThatOfTimesOfOneBatch) {
  const std::string pass = ", parallel: {ep: 1}, serving: {batch: {context: 9, sequences: ";
  const JudgedTable t =
      judged_rows("- {name: a" + pass + "8}}, published: 10 ms}\n- {name: b" + pass +
                      "8}}, published: 12 ms}\n- {name: c" + pass +
                      "8}}, published: 14 ms}\n- {name: d" + pass + "16}}, published: 20 ms}\n",
                  {iteration_of(0.010, 0, 0, {}), iteration_of(0.015, 0, 0, {}),
                   iteration_of(0.013, 0, 0, {}), iteration_of(0.009, 0, 0, {})});
  const IterationSummary sum = iteration_summary(t);
  EXPECT_EQ(sum.order.pairs, 3);
  EXPECT_EQ(sum.order.right, 2);
  EXPECT_EQ(total_of_iterations({t}).rows, 0);
  EXPECT_EQ(total_of_iterations({t}, true).rows, 4);
  const std::string text = papers_text({t}, "v").text();
  EXPECT_THAT(text, HasSubstr("4 of 4 published passes of serving are predicted: median error"));
  EXPECT_THAT(text, Not(HasSubstr("published iterations are predicted")));
  const std::string page =
      papers_page("p.md", "<!-- begin: written by moesim papers --page -->\n<!-- end -->\n", {t});
  EXPECT_THAT(page, HasSubstr("| rows | 4 | 16.1 % | 55.0 % | 2 of 3 |\n"));
  EXPECT_THAT(page, Not(HasSubstr("peak memory")));
}

TEST(IterationSummaries, ErrorsOfRowsAndOfPairsAreKept) {
  const JudgedTable t = judged_rows(
      "- {name: u, release: 1, fitted: a rate, published: 1 s}\n"
      "- {name: x, release: 1, published: 1 s}\n- {name: y, release: 1, published: 1 s}\n"
      "- {name: z, release: 2, published: 1 s}\n- {name: v, release: 1, model: n, published: 1 "
      "s}\n",
      {iteration_of(1.5, 1, 0, {}), iteration_of(1.2, 1, 0, {}), iteration_of(0.8, 1, 0, {}),
       iteration_of(1.1, 1, 0, {}), iteration_of(1.4, 1, 0, {})});
  const StoredErrors stored = read_papers_state("state", papers_state({t}));
  const std::map<std::string, double> absolute = {
      {"rows/x-1", 0.2}, {"rows/y-1", -0.2}, {"rows/z-2", 0.1}, {"rows/v-1", 0.4}};
  EXPECT_EQ(stored.absolute, absolute);
  const std::map<std::string, double> relative = {{"rows/x-1 over y-1", 0.5},
                                                  {"rows/y-1 over x-1", -0.3333}};
  EXPECT_EQ(stored.relative, relative);
  for (const char* const wrong : {"[]", "1", "{}", "{\"format\": \"moesim-papers\"}"}) {
    EXPECT_THROW(read_papers_state("state", wrong), Error) << wrong;
  }
  EXPECT_EQ(iteration_summary(t).errors.errors.size(), 5u);  // the fitted row is a row
  EXPECT_EQ(total_of({t}).absolute.errors.size(), 0u);       // iterations have their own total
}

TEST(IterationSummaries, GainsAreOfTwoRows) {
  const JudgedTable t =
      judged_rows("- {name: a, published: 12 s}\n- {name: b, published: 10 s}\n",
                  {iteration_of(11, 1, 0, {}), iteration_of(10, 1, 0, {})}, "gains: [[a, b]]\n");
  EXPECT_EQ(gain_words(iteration_summary(t)), "1.10 / 1.20");
}

TEST(IterationSummaries, RowsWithoutTheirRecordedRoutingAreNamed) {
  SimulatedIteration lacking = iteration_of(1, 1, 0, {});
  for (const bool lacks : {false, true}) {
    lacking.lacks_routing = lacks;
    const JudgedTable t = judged_rows("- {name: a, recorded: loads, published: 1 s}\n", {lacking});
    const std::string total = total_words(total_of_iterations({t}));
    EXPECT_EQ(total.ends_with("(--traces): rows/a"), lacks) << total;
  }
}

SimulatedIteration with_peak(double gib) {
  SimulatedIteration of = iteration_of(0.5, 0.5, 0, {});
  of.peak = Bytes(static_cast<std::int64_t>(gib * (1 << 30)));
  of.memory = Bytes(std::int64_t{70} << 30);
  return of;
}

TEST(IterationSummaries, WhetherRowsFitIsAsTheProgramSays) {
  const JudgedTable t = judged_rows(
      "- {name: none, fits: false}\n- {name: some, fits: false}\n"
      "- {name: all, fits: true, published: 1 s, peak_memory: 70 GiB}\n",
      {with_peak(71), with_peak(69), with_peak(70)}, "outside: a first step\n");
  const IterationSummary sum = iteration_summary(t);
  EXPECT_FALSE(sum.timed);
  EXPECT_EQ(sum.fits.pairs, 3);
  EXPECT_EQ(sum.fits.right, 2);
  EXPECT_EQ(iteration_summary_json(sum).dump(),
            R"({"rows":3,"predicted":3,"timed":false,"order":{"pairs":0,"right":0},)"
            R"("peak_memory_errors":[0.0],"fits":{"rows":3,"right":2}})");
  EXPECT_EQ(memory_words(sum), "0.0 %; fits or not 2 of 3");
  EXPECT_EQ(total_words(total_of_iterations({t})), "");  // no time counts
  const std::string page = iterations_page({t});
  EXPECT_THAT(page, Not(HasSubstr("| none |")));  // as published
  EXPECT_THAT(page, HasSubstr("| rows | some | 69.00 GiB; fits, published out of memory |\n"));
  EXPECT_THAT(page, Not(HasSubstr("| all |")));
  EXPECT_EQ(peak_words(t, 0), "71.00 GiB; out of memory");
  EXPECT_EQ(peak_words(t, 2), "70.00/70.00 GiB, +0.0 %; fits");
}

TEST(IterationPages, TheDocumentHasAllOfARow) {
  SimulatedIteration staged = iteration_of(5, 3, 0.5, {1, 3});
  staged.peak = Bytes(30), staged.memory = Bytes(40);
  staged.lacks_routing = true;
  const JudgedTable t = judged_rows(
      "- {name: a, release: 2, note: n, published: 4 s, peak_memory: 40 B, fits: true, "
      "turns: {1F: 2 s}}\n- {name: b, published: 5 s}\n",
      {staged, iteration_of(5, 3, 0, {})}, "gains: [[b, a-2]]\n");
  nlohmann::ordered_json row = row_json(t, 0);
  EXPECT_EQ(row["parts_s"]["experts"], 3);
  EXPECT_EQ(row["turns_s"]["1F"], 2);  // the mean of both stages
  row.erase("parts_s"), row.erase("turns_s");
  EXPECT_EQ(row.dump(),
            R"({"model":"m","gpus":1,"tokens":16,"release":"2","note":"n",)"
            R"("published_peak_bytes":40,"published_fits":true,"published_turns_s":{"1F":2.0},)"
            R"("overlapped_s":0.5,"flop_per_token":1000000000.0,"peak_bytes":30,"fits":true,)"
            R"("lacks_routing":true,"peak_error":-0.25})");
  const nlohmann::ordered_json sum = iteration_summary_json(iteration_summary(t));
  EXPECT_EQ(sum["median"], 0.125);  // 25 % and 0
  EXPECT_EQ(sum["fits"].dump(), R"({"rows":1,"right":1})");
  EXPECT_EQ(sum["gains"].dump(),
            R"([{"slower":"b","faster":"a-2","simulated":1.0,"published":1.25}])");
}

TEST(IterationPages, ListWhatIsFarOff) {
  SimulatedIteration large;
  large.why = "too large";
  SimulatedIteration staged = iteration_of(5, 3, 0, {1, 3});
  const JudgedTable t = judged_rows(
      "- {name: a, published: 4 s, turns: {1F: 2 s}, turns_of_stage: 1}\n"
      "- {name: b, published: 4 s}\n- {name: c, published: 5 s}\n- {name: d, published: 5 s}\n",
      {staged, large, iteration_of(4.8, 4.8, 0, {}), iteration_of(5.75, 5.75, 0, {})});
  EXPECT_THAT(
      total_words(total_of_iterations({t})),
      StartsWith("3 of 4 published iterations are predicted: median error 15.0 %, 90 % within "
                 "25.0 %; "));
  const std::string page =
      "before\n<!-- begin: written by moesim papers --page -->\n<!-- end -->\nafter\n";
  const std::string once = papers_page("page.md", page, {t});
  EXPECT_EQ(papers_page("page.md", once, {t}), once);
  EXPECT_THAT(once, AllOf(StartsWith("before\n"), HasSubstr("\n<!-- end -->\nafter\n")));
  EXPECT_THAT(once, HasSubstr("| rows | 3 of 4 | 15.0 % | 25.0 % |"));
  EXPECT_THAT(
      once,
      HasSubstr("| rows | a | 5.00 | 4.00 | +25.0 % | experts 60 %; 1F 3.00 of 2.00 s (+50 %) |\n"
                "| rows | b | - | - | - | not predicted: too large |\n"));
}

TEST(IterationPages, TheTextHasEveryRow) {
  SimulatedIteration large;
  large.why = "too large";
  const JudgedTable t =
      judged_rows("- {name: a, published: 4 s}\n- {name: b}\n- {name: c, fits: true}\n",
                  {iteration_of(5, 3, 0, {}), iteration_of(6, 3, 0, {}), large});
  const std::string text = papers_text({t}, "v").text();
  EXPECT_THAT(text, testing::ContainsRegex("\nrows +2 of 3 +25.0 % +25.0 % "));
  EXPECT_THAT(text, HasSubstr("+25.0 %"));
  EXPECT_THAT(text, HasSubstr("experts 60 %"));
  EXPECT_THAT(text, HasSubstr("1 of 3 published iterations are predicted"));
  EXPECT_THAT(text, Not(HasSubstr("contested")));
  const auto document = nlohmann::json::parse(papers_json({t}, "v"));
  const auto& row = document["tables"][0]["figures"][0];
  EXPECT_EQ(row["iteration"]["tokens"], 16);
  EXPECT_DOUBLE_EQ(row["iteration"]["parts_s"]["experts"].get<double>(), 3);
  EXPECT_FALSE(row["iteration"].contains("lacks_routing"));
  EXPECT_FALSE(document["tables"][0]["figures"][2]["iteration"].contains("parts_s"));
  EXPECT_NEAR(document["iterations"]["median"].get<double>(), 0.25, 1e-12);
  EXPECT_FALSE(document.contains("serving"));
  EXPECT_THAT(papers_json({t}, "v"), StartsWith("{\n \"format\": \"moesim-papers\",\n"));
}

}  // namespace
}  // namespace moesim
