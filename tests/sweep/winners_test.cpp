// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/winners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/sweep/pivot.h"
#include "sim/sweep/stored_value.h"

namespace moesim {
namespace {

using testing::ElementsAre;

const std::string balanced_line =
    "# not ranked: 2 cases with balanced routing, a what-if that nobody can choose\n";

TEST(Winners, BalancedOnesWinAmongThemselvesOnly) {
  const Contender balanced{"a", "balanced", ""}, recorded{"a", "recorded", ""};
  Winners among_both({balanced, recorded, balanced}, false);
  EXPECT_FALSE(among_both.admit(balanced));
  EXPECT_EQ(among_both.left_out(),
            "# not ranked: 1 case with balanced routing, a what-if that nobody can choose\n");
  EXPECT_TRUE(among_both.admit(recorded));
  EXPECT_FALSE(among_both.admit(balanced));
  EXPECT_EQ(among_both.left_out(), balanced_line);
  Winners alone({balanced, balanced}, false);
  EXPECT_TRUE(alone.admit(balanced));
  EXPECT_EQ(alone.left_out(), "");
}

TEST(Winners, LossyOnesAreCountedAndThreePoliciesNamed) {
  std::vector<Contender> all = {{"a", "", ""}};
  for (const char* policy : {"b", "b", "c", "d"}) all.push_back({policy, "", "drops 1 %"});
  all[2].lossy = "drops 2 %";
  Winners three(all, false);
  for (const Contender& c : all) EXPECT_EQ(three.admit(c), c.policy == "a");
  EXPECT_EQ(three.left_out(),
            "# not ranked: 4 lossy (b drops 1 %; c drops 1 %; d drops 1 %); --lossy allow ranks "
            "them\n");
  EXPECT_FALSE(three.admit({"e", "", "rounds"}));
  EXPECT_EQ(three.left_out(),
            "# not ranked: 5 lossy (b drops 1 %; c drops 1 %; d drops 1 %; ...); --lossy allow "
            "ranks them\n");
  Winners allowed(all, true);
  for (const Contender& c : all) EXPECT_TRUE(allowed.admit(c));
  EXPECT_EQ(allowed.left_out(), "");
}

TEST(Winners, WhatCannotRunWinsOnlyAmongItself) {
  const Contender runs{"a", "", ""}, fused{"b", "", "", "two hosts"};
  Winners both({runs, fused}, true);
  EXPECT_TRUE(both.admit(runs));
  EXPECT_FALSE(both.admit(fused));
  EXPECT_EQ(both.left_out(), "# not ranked: 1 that cannot run (b: two hosts)\n");
  Winners only({fused, fused}, false);
  EXPECT_TRUE(only.admit(fused)) << "which of them was asked for";
}

TEST(Winners, TwoLossyPoliciesAreNotAskedFor) {
  const Contender one{"a", "", "drops"}, other{"b", "", "drops"}, whole{"a", "", ""};
  EXPECT_TRUE(Winners({one, one}, false).admit(one));
  EXPECT_FALSE(Winners({one, other}, false).admit(one));
  EXPECT_FALSE(Winners({one, whole}, false).admit(one));
}

TEST(Winners, RowsAreKeptInTheirOrder) {
  const auto row = [](const char* routing, const char* lossy, int number) {
    return std::vector<StoredValue>{integer_value(number), text_value("p" + std::to_string(number)),
                                    text_value(routing), text_value(lossy)};
  };
  StoredRows rows{{"id", "policy", "routing", "lossy"},
                  {row("balanced", "", 0), row("recorded", "", 1), row("recorded", "drops", 2),
                   row("balanced", "", 3), row("recorded", "", 4)}};
  EXPECT_EQ(keep_winners(rows, false),
            balanced_line + "# not ranked: 1 lossy (p2 drops); --lossy allow ranks them\n");
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.rows[0][0], integer_value(1));
  EXPECT_EQ(rows.rows[1][0], integer_value(4));
  StoredRows plain{{"id"}, {{integer_value(7)}}};
  EXPECT_EQ(keep_winners(plain, false), "") << "no such columns";
  EXPECT_EQ(plain.rows.size(), 1U);
}

TEST(SweepFigures, AreThoseOfObjectsAndTheFirstOfAName) {
  SweepRow row;
  add_figures(row, nlohmann::ordered_json::parse(
                       R"({"n": 3, "x": 0.5, "yes": true, "no": false, "word": "w", "none": null,
                           "list": [1], "in": {"deep": {"y": 2.5}, "n": 4}})"));
  std::vector<std::string> columns;
  for (const SweepFigure& figure : row.figures) columns.push_back(figure.column);
  EXPECT_THAT(columns, ElementsAre("n", "x", "yes", "no", "word", "in.deep.y", "in.n"));
  EXPECT_EQ(row.figures[0].value, integer_value(3));
  EXPECT_EQ(row.figures[1].value, real_value(0.5));
  EXPECT_EQ(row.figures[2].value, integer_value(1));
  EXPECT_EQ(row.figures[3].value, integer_value(0));
  EXPECT_EQ(row.figures[4].value, text_value("w"));
  EXPECT_EQ(row.figures[5].value, real_value(2.5));
  add_figure(row, "n", integer_value(9));
  EXPECT_EQ(row.figures[0].value, integer_value(3));
  add_figure(row, "m", integer_value(9));
  EXPECT_EQ(row.figures.back().value, integer_value(9));
}

TEST(StoredValue, UnitsFollowFromTheColumn) {
  const auto text = [](const std::string& column, const StoredValue& value) {
    return cell_of(column, value).text;
  };
  EXPECT_EQ(text("step_s", real_value(0.0025)), "2.5 ms");
  EXPECT_EQ(text("bound_by_s.nic", real_value(0.0025)), "2.5 ms");
  EXPECT_EQ(text("sent_bytes.nic", integer_value(3000)), "3 kB");
  EXPECT_EQ(text("sent_bytes", real_value(3000)), "3 kB");
  EXPECT_EQ(text("ratio", real_value(1.23456)), "1.235");
  EXPECT_EQ(text("count", integer_value(123456)), "123456");
  EXPECT_EQ(text("count", text_value("many")), "many");
  EXPECT_EQ(text("count", std::nullopt), "");
  EXPECT_EQ(*cell_of("step_s", real_value(0.0025)).value, 0.0025);
  EXPECT_EQ(text_of(real_value(0.25)), "0.25");
  EXPECT_EQ(text_of(integer_value(-4)), "-4");
  EXPECT_EQ(text_of(std::nullopt), "");
  EXPECT_EQ(number_of(integer_value(-4)), -4);
  EXPECT_TRUE(std::isnan(number_of(text_value("4"))));
  EXPECT_TRUE(std::isnan(number_of(std::nullopt)));
}

TEST(StoredValue, RowsOfOneScenarioAreOne) {
  const auto row = [](int a, int b, const StoredValue& scenario) {
    return std::vector<StoredValue>{integer_value(a), integer_value(b), scenario, real_value(a)};
  };
  StoredRows rows{{"a", "b", "scenario", "step_s"},
                  {row(1, 5, text_value("s")), row(2, 5, text_value("s")),
                   row(3, 6, text_value("t")), row(4, 6, std::nullopt), row(5, 6, std::nullopt)}};
  collapse_equal(rows, {"a", "b"});
  ASSERT_EQ(rows.rows.size(), 4U) << "nothing is known of the last two";
  EXPECT_EQ(rows.rows[0][0], text_value("any"));
  EXPECT_EQ(rows.rows[0][1], integer_value(5));
  EXPECT_EQ(rows.rows[0][3], real_value(1)) << "the first stays";
  EXPECT_EQ(rows.rows[1][0], integer_value(3));
  EXPECT_EQ(rows.rows[3][0], integer_value(5));
  StoredRows without{{"a"}, {{integer_value(1)}, {integer_value(1)}}};
  collapse_equal(without, {"a"});
  EXPECT_EQ(without.rows.size(), 2U);
}

TEST(StoredValue, SpeedupsTellRowsApart) {
  StoredRows rows{{"a", "scenario", "speedup"},
                  {{integer_value(1), text_value("s"), real_value(1)},
                   {integer_value(2), text_value("s"), real_value(2)}}};
  collapse_equal(rows, {"a"});
  EXPECT_EQ(rows.rows.size(), 2U);
}

TEST(StoredValue, OnlyNamesOfColumnsAreQuoted) {
  const std::vector<std::string> columns = {"a.b", "policy", "topology:x.n"};
  EXPECT_EQ(with_quoted_columns("a.b>1 AND policy='a.b'", columns),
            "\"a.b\">1 AND \"policy\"='a.b'");
  EXPECT_EQ(with_quoted_columns("\"a.b\"<topology:x.n", columns), "\"a.b\"<\"topology:x.n\"");
  EXPECT_EQ(with_quoted_columns("policy='' AND a.b>1", columns), "\"policy\"='' AND \"a.b\">1");
  EXPECT_EQ(with_quoted_columns("a.bc = 'policy", columns), "a.bc = 'policy") << "left open";
  EXPECT_EQ(with_quoted_columns("policy", columns), "\"policy\"");
  EXPECT_EQ(with_quoted_columns("", columns), "");
}

/// p on x and y, q on y; of the two rows at (p, x) the better one is shown.
TEST(PivotTable, HasTheBestOfEachPlace) {
  const auto row = [](const char* policy, const char* place, const StoredValue& time) {
    return std::vector<StoredValue>{text_value(policy), text_value(place), time};
  };
  const StoredRows rows{{"policy", "place", "n"},
                        {row("p", "x", integer_value(3)), row("p", "x", integer_value(2)),
                         row("p", "y", integer_value(5)), row("p", "z", std::nullopt),
                         row("q", "y", integer_value(4)), row("p", "x", integer_value(4))}};
  const auto value = [](const Table& table, std::size_t row, std::size_t column) {
    return table.rows.at(row).at(column).text;
  };
  const Table least = pivot_table(rows, {"policy", "place"}, aim_of("n"));
  ASSERT_EQ(least.rows.size(), 2U);
  ASSERT_EQ(least.columns.size(), 3U) << "z has no figure";
  EXPECT_EQ(least.columns[0].name, "policy");
  EXPECT_EQ(least.columns[1].name, "x");
  EXPECT_THAT(least.titles, ElementsAre("n by place"));
  EXPECT_EQ(value(least, 0, 0), "p");
  EXPECT_EQ(value(least, 0, 1), "2");
  EXPECT_EQ(value(least, 0, 2), "5");
  EXPECT_EQ(value(least, 1, 1), "");
  EXPECT_EQ(value(least, 1, 2), "4");
  EXPECT_EQ(value(pivot_table(rows, {"policy", "place"}, aim_of("-n")), 0, 1), "4");
  for (const auto& of : {std::vector<std::string>{"policy"}, {"policy", "place", "n"}}) {
    EXPECT_THROW(pivot_table(rows, of, aim_of("n")), Error);
  }
}

}  // namespace
}  // namespace moesim
