// SPDX-License-Identifier: Apache-2.0
// Tables of critical paths, and of what changes them, of made-up sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/report/notes.h"
#include "sim/report/path_report.h"
#include "sim/report/whatif_table.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

/// 10 s, of which 6 are of dispatches and 4 of combines.
PathSums ten_seconds() {
  PathSums path;
  path.length = Seconds(10);
  PathPart& dispatch = path.kinds[static_cast<std::size_t>(PathKind::dispatch)];
  dispatch.time = Seconds(6);
  dispatch.by = {{"latency", Seconds(1.5)}, {"nic", Seconds(4.5)}};
  dispatch.links = {{"a -> b", Seconds(2)}, {"c -> d", Seconds(4)}};
  PathPart& combine = path.kinds[static_cast<std::size_t>(PathKind::combine)];
  combine.time = Seconds(4);
  combine.by = {{"latency", Seconds(4)}};
  path.gpus = {Seconds(3), Seconds(0), Seconds(7)};
  path.waited = {Seconds(1), Seconds(0), Seconds(2)};
  return path;
}

std::vector<std::string> texts(const std::vector<Cell>& row) {
  std::vector<std::string> all;
  for (const Cell& cell : row) all.push_back(cell.text);
  return all;
}

std::vector<std::string> keys(const Table& table) {
  std::vector<std::string> names;
  for (const TableColumn& column : table.columns) {
    if (column.kind == TableColumn::Kind::key) names.push_back(column.name);
  }
  return names;
}

TEST(PathTable, HasKindsByTheirTimes) {
  const Table table = path_table(ten_seconds(), 2);
  EXPECT_THAT(keys(table), ElementsAre("on the path"));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_THAT(texts(table.rows[0]), ElementsAre(name_of(PathKind::dispatch), Cell(Seconds(3)).text,
                                                "60.0 %", "nic 75 %", "c -> d"));
  EXPECT_THAT(texts(table.rows[1]), ElementsAre(name_of(PathKind::combine), Cell(Seconds(2)).text,
                                                "40.0 %", "latency 100 %", "-"));
  EXPECT_EQ(path_text(ten_seconds()), "tokens 100 %") << "there and back";
  PathSums more = ten_seconds();
  more.kinds[static_cast<std::size_t>(PathKind::experts)].time = more.length * 3;
  more.length = more.length * 4;
  EXPECT_EQ(path_text(more), "experts 75 %");
  EXPECT_EQ(path_text({}), "-");
}

TEST(PathTable, HasGpusByTheirTimes) {
  const Table table = path_gpu_table(ten_seconds(), 2, 5);
  EXPECT_THAT(keys(table), ElementsAre("GPU"));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_THAT(texts(table.rows[0]),
              ElementsAre("2", Cell(Seconds(3.5)).text, "70.0 %", Cell(Seconds(1)).text));
  EXPECT_EQ(table.rows[1][0].text, "0");
  EXPECT_EQ(path_gpu_table(ten_seconds(), 2, 1).rows.size(), 1U);
}

WhatIfCase case_of(const std::string& policy, double after, std::int64_t tokens) {
  return {{"pair", policy, "", "port"},
          {Seconds(10), 1000, 2, ten_seconds()},
          {Seconds(after), tokens, 2, ten_seconds()}};
}

std::vector<std::string> columns_of(const Printout& printout) {
  std::vector<std::string> names;
  for (const TableColumn& column : std::get<Table>(printout.parts().at(0)).columns) {
    names.push_back(column.name);
  }
  return names;
}

TEST(WhatIfTable, HasTimesTheirChangeAndPaths) {
  const Printout alike = whatif_table({case_of("one", 12, 1000), case_of("two", 5, 1000)});
  EXPECT_THAT(columns_of(alike),
              ElementsAre("policy", "before", "after", "change", "critical path", "then"));
  const auto& row = std::get<Table>(alike.parts().at(0)).rows.at(0);
  EXPECT_THAT(texts(row),
              ElementsAre("one", Cell(Seconds(10)).text, Cell(Seconds(12)).text, "+20.0 %",
                          path_text(ten_seconds()), path_text(ten_seconds())));
  const Printout fewer = whatif_table({case_of("one", 10, 500), case_of("two", 5, 1000)});
  EXPECT_THAT(columns_of(fewer), ElementsAre("policy", "before", "after", "change", "tokens/s",
                                             "critical path", "then"));
  EXPECT_EQ(std::get<Table>(fewer.parts().at(0)).rows.at(0).at(4).text, "-50.0 %");
}

TEST(Losses, HaveOnlyTheFiguresThatTheyNeed) {
  nlohmann::ordered_json none, some;
  add_loss(none, {});
  EXPECT_EQ(none.dump(), "{\"lossy\":\"\"}");
  EXPECT_EQ(lossy_cell({}).text, "-");
  Loss loss;
  loss.compression = 4;
  add_loss(some, loss);
  EXPECT_EQ(some.at("loss").dump(), "{\"weight_compression\":4.0}");
  EXPECT_EQ(lossy_cell(loss).text, loss.text());
}

}  // namespace
}  // namespace moesim
