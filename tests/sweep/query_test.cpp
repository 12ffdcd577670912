// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/sweep/document.h"
#include "sim/sweep/stored_value.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Policies a and b on 2, 4 and 8 nodes: b takes less time from 4 nodes on and more memory; a does
/// not fit 8.
class QueryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<SweepRow> rows;
    const double times[2][3] = {{0.4, 0.3, 0}, {0.5, 0.2, 0.1}};
    for (int p = 0; p < 2; ++p) {
      for (int n = 0; n < 3; ++n) {
        SweepRow& row = rows.emplace_back(SweepRow{p * 3 + n, sweep_ok});
        row.figures = {{"policy", text_value(p == 0 ? "a" : "b")},
                       {"topology.nodes", integer_value(2 << n)},
                       {"step_s", real_value(times[p][n])},
                       {"peak_memory_bytes", integer_value(100 + p)},
                       {"moesim", text_value("1.0")}};
      }
    }
    rows[2].state = sweep_unsuitable;
    rows[2].reason = "does not fit";
    rows[2].figures.resize(2);
    const std::string path = scratch_ / "s.sqlite";
    SweepStore(path, {"hash", "grid.yaml", 6, {"policy", "topology.nodes"}}).add(rows);
    reader_ = std::make_unique<SweepReader>(path);
  }

  Table ask(const SweepQuery& query) {
    return std::get<Table>(answer(*reader_, query).parts().at(0));
  }
  /// The first two cells of every row.
  std::vector<std::string> names(const SweepQuery& query) {
    std::vector<std::string> result;
    for (const auto& row : ask(query).rows) result.push_back(row[0].text + row[1].text);
    return result;
  }
  std::string query_error(const SweepQuery& query) {
    return error_of([&] { ask(query); });
  }
  ScratchFolder scratch_;
  std::unique_ptr<SweepReader> reader_;
};

TEST_F(QueryTest, ShowsWhatRan) {
  EXPECT_THAT(names({}), ElementsAre("a2", "a4", "b2", "b4", "b8"));
}

/// Names of the columns, in brackets those that are shown only if asked for; prose with a star.
std::string columns_of(const Table& table) {
  std::string text;
  for (const TableColumn& c : table.columns) {
    const bool key = c.kind == TableColumn::Kind::key, prose = c.kind == TableColumn::Kind::prose;
    const std::string name = c.name + (key ? "!" : prose ? "*" : "");
    text += (c.telling ? name : "(" + name + ")") + " ";
  }
  return text;
}

TEST_F(QueryTest, ShowsAxesFirstAndTheFigureInQuestion) {
  const std::string axes = "policy! topology.nodes! (id) (state) (reason*) ";
  EXPECT_EQ(columns_of(ask({})), axes + "step_s peak_memory_bytes (moesim) ");
  EXPECT_EQ(columns_of(ask({.by = "-moesim"})), axes + "step_s peak_memory_bytes moesim ");
  EXPECT_EQ(columns_of(ask({.pareto = {"step_s", "-id"}})),
            "policy! topology.nodes! id (state) (reason*) step_s peak_memory_bytes (moesim) ");
  EXPECT_EQ(columns_of(ask({.not_run = true})),
            "policy! topology.nodes! (id) state reason* (step_s) (peak_memory_bytes) (moesim) ");
  EXPECT_EQ(columns_of(ask({.baseline = "policy=a"})),
            axes + "step_s peak_memory_bytes (moesim) speedup ");
  EXPECT_THAT(
      query_error({.by = "zzzzzzzz"}),
      HasSubstr("the sweep has no column 'zzzzzzzz'\nhint: --format csv shows all columns\n"));
  EXPECT_THAT(query_error({.baseline = "policy"}),
              HasSubstr("--baseline: 'policy' names no value\n"));
}

TEST_F(QueryTest, Filters) {
  EXPECT_THAT(names({.where = "topology.nodes > 2 AND policy <> 'a.b'"}),
              ElementsAre("a4", "b4", "b8"));
  EXPECT_THAT(names({.where = R"("topology.nodes" = 2)"}), ElementsAre("a2", "b2"));
  EXPECT_THAT(query_error({.where = "topology.nodes >"}), HasSubstr("SQLite"));
  EXPECT_THAT(query_error({.where = "polcy = 'a'"}), HasSubstr("did you mean 'policy'?"));
  EXPECT_THAT(query_error({.by = "peak"}), HasSubstr("did you mean 'peak_memory_bytes'?"));
  EXPECT_THAT(query_error({.where = "1); DROP TABLE scenarios; --"}), HasSubstr("SQLite"));
}

TEST_F(QueryTest, SaysThatNothingMatchesAndWhatThereIs) {
  const auto note = [&](const SweepQuery& query) {
    return std::get<std::string>(answer(*reader_, query).parts().at(1));
  };
  EXPECT_EQ(note({.where = "policy = 'c' and step_s > 0"}),
            "# no scenario matches; policy is 'a', 'b'\n");
  EXPECT_EQ(note({.where = "topology.nodes = 3"}),
            "# no scenario matches; topology.nodes is 2, 4, 8\n");
  EXPECT_EQ(note({.where = "step_s > 9", .baseline = "policy=a"}), "# no scenario matches\n");
  EXPECT_THAT(names({.where = "topology.nodes = 3"}), testing::IsEmpty());
  EXPECT_EQ(answer(*reader_, {}).parts().size(), 1U);
}

TEST_F(QueryTest, RanksTheBest) {
  EXPECT_THAT(names({.top = 2}), ElementsAre("b8", "b4"));
  EXPECT_THAT(names({.by = "-step_s", .top = 2}), ElementsAre("b2", "a2"));
  EXPECT_THAT(query_error({.by = "stp_s"}), HasSubstr("did you mean 'step_s'?"));
  EXPECT_THAT(query_error({.by = "nodes"}), HasSubstr("did you mean 'topology.nodes'?"));
}

TEST_F(QueryTest, SaysWhatMemoryDoesNotHold) {
  std::vector<SweepRow> rows;
  for (int i = 0; i < 3; ++i) {
    rows.emplace_back(SweepRow{i, sweep_ok}).figures = {
        {"policy", text_value(std::string(1, static_cast<char>('a' + i)))},
        {"step_s", real_value(1.0 + i)},
        {"peak_memory.bytes", integer_value(90 - i)},
        {"peak_memory.gpu_memory_bytes", integer_value(88)}};
  }
  const std::string path = scratch_ / "large.sqlite";
  SweepStore(path, {"hash", "grid.yaml", 3, {"policy"}}).add(rows);
  const SweepReader reader(path);
  EXPECT_THAT(answer(reader, {.top = 2}).text(),
              HasSubstr("# memory does not hold 2 of them: --where 'peak_memory.bytes <= "
                        "peak_memory.gpu_memory_bytes' leaves out such\n"));
  EXPECT_THAT(answer(reader, {.where = "peak_memory.bytes <= peak_memory.gpu_memory_bytes"}).text(),
              testing::Not(HasSubstr("does not hold")));
}

TEST_F(QueryTest, FindsTheParetoFront) {
  EXPECT_THAT(names({.pareto = {"step_s", "peak_memory_bytes"}}), ElementsAre("a4", "b8"));
  EXPECT_THAT(names({.pareto = {"step_s", "-topology.nodes"}}), ElementsAre("b8"));
}

/// Policies of an iteration: b is lossy and fastest, a is there with balanced routing, too.
class WinnersTest : public testing::Test {
 protected:
  void SetUp() override { fill("recorded"); }
  void fill(const std::string& of_the_others) {
    const std::vector<std::vector<std::string>> cases = {{"a", "balanced", ""},
                                                         {"a", of_the_others, ""},
                                                         {"b", of_the_others, "drops 18 %"},
                                                         {"c", of_the_others, ""}};
    const double times[] = {0.2, 0.4, 0.1, 0.3};
    std::vector<SweepRow> rows;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      SweepRow& row = rows.emplace_back(SweepRow{static_cast<std::int64_t>(i), sweep_ok});
      row.figures = {{"policy", text_value(cases[i][0])},   {"routing", text_value(cases[i][1])},
                     {"iteration_s", real_value(times[i])}, {"mfu", real_value(1 - times[i])},
                     {"lossy", text_value(cases[i][2])},    {"moesim", text_value("1.0")}};
    }
    const std::string path = scratch_ / (of_the_others + ".sqlite");
    SweepStore(path, {"hash", "grid.yaml", 4, {"policy", "routing"}}).add(rows);
    reader_ = std::make_unique<SweepReader>(path);
  }
  std::vector<std::string> names(const SweepQuery& query) {
    std::vector<std::string> result;
    const Printout printed = answer(*reader_, query);
    for (const auto& row : std::get<Table>(printed.parts().at(0)).rows) {
      result.push_back(row[0].text + " " + row[1].text);
    }
    return result;
  }
  ScratchFolder scratch_;
  std::unique_ptr<SweepReader> reader_;
};

TEST_F(WinnersTest, NeitherBalancedNorLossyCasesAreTheBest) {
  EXPECT_THAT(names({.top = 9}), ElementsAre("c recorded", "a recorded"));
  EXPECT_THAT(names({.pareto = {"iteration_s", "-mfu"}}), ElementsAre("c recorded"));
  const Table pivot =
      std::get<Table>(answer(*reader_, {.pivot = {"policy", "routing"}}).parts()[0]);
  EXPECT_EQ(pivot.rows.size(), 2U);
  EXPECT_EQ(pivot.columns.size(), 2U);
  EXPECT_EQ(std::get<std::string>(answer(*reader_, {.top = 1}).parts().at(1)),
            "# not ranked: 1 case with balanced routing, a what-if that nobody can choose\n"
            "# not ranked: 1 lossy (b drops 18 %); --lossy allow ranks them\n");
}

TEST_F(WinnersTest, LossyOnesAreAmongThemIfAsked) {
  EXPECT_THAT(names({.top = 2, .lossy = true}), ElementsAre("b recorded", "c recorded"));
}

TEST_F(WinnersTest, OneLossyPolicyIsComparedWithItself) {
  EXPECT_THAT(names({.where = "policy = 'b'", .top = 1}), ElementsAre("b recorded"));
}

TEST_F(WinnersTest, WhereAllRoutingIsBalancedItIsCompared) {
  fill("balanced");
  EXPECT_THAT(names({.top = 1}), ElementsAre("a balanced"));
}

TEST_F(WinnersTest, TheColumnIsThereWhereItSaysSomething) {
  const auto lossy = [&](const std::string& where) {
    const Table table = std::get<Table>(answer(*reader_, {.where = where}).parts().at(0));
    EXPECT_EQ(table.columns.at(2).name, "lossy") << "next to the axes";
    return table.columns.at(2).telling;
  };
  EXPECT_TRUE(lossy(""));
  EXPECT_FALSE(lossy("policy <> 'b'"));
  EXPECT_THAT(names({}), testing::SizeIs(4)) << "what is not ranked hides nothing";
}

TEST_F(QueryTest, Groups) {
  const Table table = ask({.group = {"policy"}});
  ASSERT_EQ(table.rows.size(), 2U);
  const auto& a = table.rows[0];
  EXPECT_EQ(a[0].text, "a");
  EXPECT_EQ(a[1].value, 2);
  EXPECT_EQ(a[2].value, 0.3);
  EXPECT_DOUBLE_EQ(*a[3].value, 0.35);
  EXPECT_EQ(a[4].value, 0.4);
}

TEST_F(QueryTest, GroupsWithoutNumbersAreCounted) {
  const Table table = ask({.by = "moesim", .group = {"policy", "topology.nodes"}});
  ASSERT_EQ(table.rows.size(), 5U);
  ASSERT_EQ(table.columns.size(), 6U);
  EXPECT_THAT(table.titles, ElementsAre("moesim"));
  EXPECT_EQ(table.columns[1].name, "topology.nodes");
  EXPECT_EQ(table.columns[2].name, "scenarios");
  EXPECT_THAT(table.rows[4], ElementsAre(Cell("b"), Cell(std::int64_t{8}), Cell(std::int64_t{0}),
                                         Cell(""), Cell(""), Cell("")));
}

TEST_F(QueryTest, Pivots) {
  const Table table = ask({.pivot = {"policy", "topology.nodes"}});
  ASSERT_EQ(table.columns.size(), 4U);
  EXPECT_EQ(table.columns[3].name, "8");
  EXPECT_EQ(table.rows[0][3].text, "") << "was not run";
  EXPECT_EQ(table.rows[1][3].value, 0.1);
}

/// A policy without the axis has one scenario in two rows.
TEST_F(QueryTest, OnlyPlainListsHaveRowsOfOneScenarioOnce) {
  std::vector<SweepRow> rows;
  for (const int depth : {1, 2}) {
    SweepRow& row = rows.emplace_back(SweepRow{depth - 1, sweep_ok});
    row.figures = {{"policy", text_value("a")},
                   {"depth", integer_value(depth)},
                   {"step_s", real_value(0.5)},
                   {"scenario", text_value("s")}};
  }
  const std::string path = scratch_ / "equal.sqlite";
  SweepStore(path, {"hash", "grid.yaml", 2, {"policy", "depth"}}).add(rows);
  reader_ = std::make_unique<SweepReader>(path);
  EXPECT_THAT(names({}), ElementsAre("aany"));
  EXPECT_THAT(names({.group = {"depth", "policy"}}), ElementsAre("1a", "2a"));
  EXPECT_EQ(columns_of(ask({.pivot = {"policy", "depth"}})), "policy! 1 2 ");
}

TEST_F(QueryTest, AddsSpeedups) {
  const Table table = ask({.baseline = "policy=a"});
  ASSERT_EQ(table.columns.back().name, "speedup");
  EXPECT_EQ(table.rows[0].back().value, 1);
  EXPECT_DOUBLE_EQ(*table.rows[3].back().value, 1.5);
  EXPECT_EQ(table.rows[4].back().value, std::nullopt) << "the baseline was not run";
  EXPECT_THAT(query_error({.baseline = "policy=c"}),
              HasSubstr("no scenario has policy = c\nhint: policy is 'a', 'b'\n"));
}

/// Twice the nodes take twice the tokens: the same time is twice the speed.
TEST_F(QueryTest, SpeedupsAreByTokensWhereTheSweepHasThem) {
  std::vector<SweepRow> rows;
  for (const int nodes : {2, 4}) {
    SweepRow& row = rows.emplace_back(SweepRow{nodes / 2 - 1, sweep_ok});
    row.figures = {{"topology.nodes", integer_value(nodes)},
                   {"step_s", real_value(0.5)},
                   {"tokens", integer_value(100 * nodes)}};
  }
  const std::string path = scratch_ / "tokens.sqlite";
  SweepStore(path, {"hash", "grid.yaml", 2, {"topology.nodes"}}).add(rows);
  reader_ = std::make_unique<SweepReader>(path);
  const Table table = ask({.baseline = "topology.nodes=2"});
  EXPECT_EQ(table.rows[0].back().value, 1);
  EXPECT_EQ(table.rows[1].back().value, 2);
}

TEST_F(QueryTest, TellsWhatWasNotRun) {
  const Table table = ask({.not_run = true});
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(table.rows[0], testing::Contains(Cell("does not fit")));
}

TEST_F(QueryTest, DocumentsHoldEveryRow) {
  const auto document = nlohmann::json::parse(sweep_document(*reader_));
  EXPECT_EQ(document["format"], "moesim-sweep");
  EXPECT_EQ(document["axes"], (nlohmann::json{"policy", "topology.nodes"}));
  EXPECT_EQ(document["format_version"], 1);
  EXPECT_EQ(document["versions"], nlohmann::json{"1.0"}) << "each once";
  EXPECT_EQ(document["file"], "grid.yaml");
  EXPECT_EQ(document["grid"], "hash");
  EXPECT_EQ(document["scenarios"], 6);
  EXPECT_EQ(document["inputs"], nlohmann::json::object());
  EXPECT_EQ(document["columns"], (nlohmann::json{"id", "policy", "topology.nodes", "state",
                                                 "reason", "step_s", "peak_memory_bytes"}));
  EXPECT_EQ(document["rows"][5], (nlohmann::json{5, "b", 8, "ok", nullptr, 0.1, 101}));
  EXPECT_EQ(document["rows"].size(), 6U);
  const auto column =
      std::ranges::find(document["columns"], "step_s") - document["columns"].begin();
  EXPECT_EQ(document["rows"][1][column], 0.3);
  EXPECT_TRUE(document["rows"][2][column].is_null());
  const auto few = nlohmann::json::parse(sweep_document(*reader_, "policy = 'b'"));
  EXPECT_EQ(few["rows"].size(), 3U);
}

TEST(SweepDocument, NamesInputsByTheirHashes) {
  const ScratchFolder scratch;
  std::vector<SweepRow> rows;
  for (const auto& [id, hash] : {std::pair(0, "x"), {1, "y"}, {2, "x"}, {3, ""}}) {
    rows.push_back(
        {id, sweep_ok, "", {{"model_xxh3", text_value(hash)}, {"moesim", text_value("v")}}});
  }
  SweepStore(scratch / "s", {"h", "g", 4, {}}).add(rows);
  const auto document = nlohmann::json::parse(sweep_document(SweepReader(scratch / "s")));
  EXPECT_EQ(document["inputs"].dump(), R"({"model":["x","y"]})");
  EXPECT_EQ(document["columns"], (nlohmann::json{"id", "state", "reason"}));
  EXPECT_TRUE(is_sqlite_file(scratch / "s"));
  write_bytes(scratch / "t", "SQLite format 3 and more than it");
  EXPECT_FALSE(is_sqlite_file(scratch / "t"));
  write_bytes(scratch / "t", "SQLite format 3");
  EXPECT_FALSE(is_sqlite_file(scratch / "t"));
}

TEST_F(QueryTest, FiguresThatAreNoneAreRefused) {
  const auto refused = [&](const std::string& column, const SweepValue& value) {
    std::vector<SweepRow> rows;
    for (int id = 0; id < 2; ++id) {
      rows.push_back({id,
                      sweep_ok,
                      "",
                      {{"moesim", text_value("1.0")},
                       {"tokens", integer_value(4)},
                       {"step_s", real_value(0.1)}}});
    }
    std::erase_if(rows[1].figures, [&](const SweepFigure& f) { return f.column == column; });
    rows[1].figures.push_back({column, value});
    const std::string path = scratch_ / (column + "-damaged");
    std::filesystem::remove(path);
    SweepStore(path, {"h", "g", 2, {}}).add(rows);
    const SweepReader reader(path);
    const std::string error = error_of([&] { answer(reader, {.top = 1}); });
    EXPECT_EQ(error_of([&] { sweep_document(reader); }), error);
    return error.substr(std::min(error.find("error: "), error.size()));
  };
  const std::string hint = "\nhint: copy it again, or remove it and run the sweep again\n";
  const std::string damaged = "error: is damaged: scenario 1 has ";
  EXPECT_EQ(refused("step_s", text_value("abc")), damaged + "text as its step_s" + hint);
  EXPECT_EQ(refused("step_s", real_value(INFINITY)), damaged + "inf as its step_s" + hint);
  EXPECT_EQ(refused("step_s", integer_value(-1)), damaged + "-1 as its step_s" + hint);
  EXPECT_EQ(refused("tokens", text_value("abc")), damaged + "text as its tokens" + hint);
  EXPECT_EQ(refused("a_bytes", integer_value(-8)), damaged + "-8 as its a_bytes" + hint);
  EXPECT_EQ(refused("idle_s", real_value(-1e-17)), "") << "a difference of equal times";
  EXPECT_EQ(refused("gain", real_value(-0.5)), "");
}

TEST_F(QueryTest, ParetoFrontIsThatOfBruteForce) {
  StoredRows rows{{"x", "y"}, {}};
  unsigned seed = 1;
  const auto draw = [&] { return static_cast<double>((seed = seed * 1103515245 + 12345) >> 28); };
  for (int i = 0; i < 60; ++i) rows.rows.push_back({real_value(draw()), real_value(draw())});
  rows.rows.push_back({std::nullopt, real_value(0)});
  std::vector<std::size_t> expected;
  for (std::size_t i = 0; i < 60; ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j < 60; ++j) {
      const double dx = rows.rows[j][0]->real - rows.rows[i][0]->real,
                   dy = rows.rows[j][1]->real - rows.rows[i][1]->real;
      beaten |= dx <= 0 && dy <= 0 && dx + dy < 0;
    }
    if (!beaten) expected.push_back(i);
  }
  EXPECT_EQ(pareto_front(rows, {"x", "y"}), expected);
}

TEST(StoredValue, BytesBeyond64BitsAreANumber) {
  EXPECT_EQ(cell_of("peak_memory_bytes", integer_value(2000)).text, "2 kB");
  EXPECT_EQ(cell_of("peak_memory_bytes", real_value(1e300)).text, "1e+300");
  EXPECT_EQ(cell_of("ttft.p95_s", real_value(0.25)).text, "250 ms");
  EXPECT_EQ(cell_of("requests_per_s", real_value(0.25)).text, "0.25");
  EXPECT_EQ(cell_of("peak_memory_bytes", real_value(-9.3e18)).text, "-9.3e+18");
}

}  // namespace
}  // namespace moesim
