// SPDX-License-Identifier: Apache-2.0
// One printout for files, terminals and programs.
#include "sim/print/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Two keys, three figures in two blocks, and one with nothing to say.
Printout cases() {
  Table table("cases", {});
  using Kind = TableColumn::Kind;
  table.columns = {{"topology", Kind::key, 0, true},  {"policy", Kind::key, 0, true},
                   {"step", Kind::figure, 0, true},   {"speedup", Kind::figure, 0, true},
                   {"grads", Kind::figure, 0, false}, {"load max/mean", Kind::figure, 1, true},
                   {"memory", Kind::figure, 1, true}};
  table.titles = {"", "# what is held"};
  table.rows = {
      {"rail", "dedup", Seconds(0.002), ratio_cell(1, 2), Seconds(0), "1.50", Bytes(2000)},
      {"rail", "a,\"b\"", Seconds(0.0010051), ratio_cell(1.99, 2), Seconds(0), "1.10",
       Bytes(33'554'432)}};
  return Printout().add("# header\n").add(table).add("# note: one\n");
}

TEST(Render, NamesTellATerminalNothing) {
  Table table("cases", 1, {"policy", "step"});
  table.rows = {{"\x1b[2Jx", "1"}};
  const Printout printout = Printout().add("# \x1b[1m\n").add(table);
  for (const PrintFormat format : {PrintFormat::table, PrintFormat::csv, PrintFormat::markdown}) {
    EXPECT_THAT(render(printout, {format}).text,
                AllOf(HasSubstr("\\x1b[2Jx"), Not(HasSubstr("\x1b"))));
  }
}

TEST(Render, NamesTellASpreadsheetNothing) {
  Table table("cases", 1, {"policy", "-change"});
  table.rows = {{"=1+1", "-"}, {"@x", "-1.5 %"}, {"+a,b", "a=b"}, {"-cmd", Seconds(-2)}};
  EXPECT_EQ(render(Printout().add(table), {PrintFormat::csv}).text,
            "policy,'-change [s]\n'=1+1,-\n'@x,-1.5 %\n\"'+a,b\",a=b\n'-cmd,-2\n");
}

std::string rendered(const PrintStyle& style) { return render(cases(), style).text; }

TEST(Render, AFileHasAllColumnsThatTellSomething) {
  EXPECT_EQ(cases().text(),
            "# header\n"
            "topology  policy      step  speedup\n"
            "rail      dedup       2 ms    1.00x\n"
            "rail      a,\"b\"   1.005 ms    1.99x\n"
            "\n"
            "# what is held\n"
            "topology  policy  load max/mean    memory\n"
            "rail      dedup            1.50      2 kB\n"
            "rail      a,\"b\"            1.10  33.55 MB\n"
            "# note: one\n");
}

TEST(Render, ATerminalHasTheFirstColumnsThatFit) {
  const std::string text = rendered({.width = 30});
  EXPECT_EQ(text,
            "# header\n"
            "topology  policy      step\n"
            "rail      dedup       2 ms\n"
            "rail      a,\"b\"   1.005 ms\n"
            "\n"
            "# what is held\n"
            "topology  policy\n"
            "rail      dedup\n"
            "rail      a,\"b\"\n"
            "# note: one\n"
            "# more columns: speedup,\n"
            "#   load-max-mean, memory\n"
            "#   (--wide shows all,\n"
            "#   --columns a,b these)\n");
  EXPECT_THAT(rendered({.width = 30, .hint = false}), Not(HasSubstr("--wide")));
  EXPECT_EQ(rendered({.width = 41}), cases().text());
}

TEST(Render, ChosenColumnsStandInOneBlock) {
  EXPECT_EQ(rendered({.columns = {"memory", "policy", "grads"}}),
            "# header\n"
            "  memory  policy  grads\n"
            "    2 kB  dedup    0 ns\n"
            "33.55 MB  a,\"b\"    0 ns\n"
            "# note: one\n");
  EXPECT_EQ(rendered({.columns = {"policy"}}), "# header\npolicy\ndedup\na,\"b\"\n# note: one\n");
  EXPECT_EQ(render(cases(), {.format = PrintFormat::csv, .columns = {"speedup", "policy"}}).text,
            "speedup,policy\n1,dedup\n1.99,\"a,\"\"b\"\"\"\n");
}

TEST(Render, AnUnknownColumnIsAnError) {
  try {
    rendered({.columns = {"memori"}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "error: --columns: there is no column 'memori'\nhint: did you mean 'memory'?\n");
  }
  EXPECT_THROW(rendered({.sort = "-steps!"}), Error);
}

TEST(Render, SortsByNumbersNotByTheirText) {
  EXPECT_THAT(rendered({.sort = "step"}), HasSubstr("speedup\nrail      a,"));
  EXPECT_THAT(rendered({.sort = "-step"}), HasSubstr("speedup\nrail      dedup"));
  EXPECT_THAT(rendered({.sort = "-memory"}), HasSubstr("speedup\nrail      a,"));  // 33 MB > 2 kB
  EXPECT_THAT(rendered({.sort = "policy"}), HasSubstr("speedup\nrail      a,"));
}

TEST(Render, CsvHasFullNumbersAndAlwaysTheSameColumns) {
  const Rendered csv = render(cases(), {.format = PrintFormat::csv});
  EXPECT_EQ(csv.text,
            "topology,policy,step [s],speedup,grads [s],load max/mean,memory [B]\n"
            "rail,dedup,0.002,1,0,1.50,2000\n"
            "rail,\"a,\"\"b\"\"\",0.0010051,1.99,0,1.10,33554432\n");
  EXPECT_EQ(csv.beside, "# header\n# note: one\n");
}

TEST(Render, CsvHasTheUnitsOfColumnsWithoutValues) {
  Table table("cases", 1, {"policy", "TPOT"});
  table.rows = {{"a", no_value("s")}};
  EXPECT_EQ(render(Printout().add(table), {.format = PrintFormat::csv}).text,
            "policy,TPOT [s]\na,-\n");
}

TEST(Render, JsonHasTablesByName) {
  const Rendered json = render(cases(), {.format = PrintFormat::json});
  const auto rows = nlohmann::json::parse(json.text)["cases"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["policy"], "a,\"b\"");
  EXPECT_EQ(rows[1]["step [s]"], 0.0010051);
  EXPECT_EQ(rows[0]["memory [B]"], 2000);
  EXPECT_TRUE(json.text.starts_with("{\n \"cases\": [\n"));
}

TEST(Render, MarkdownHasTheBlocksAsTables) {
  EXPECT_EQ(rendered({.format = PrintFormat::markdown, .columns = {"step"}}),
            "- header\n\n"
            "| step |\n"
            "| ---: |\n"
            "| 2 ms |\n"
            "| 1.005 ms |\n\n"
            "- note: one\n");
}

TEST(Render, ColoursOnlyWhereTheyAreAskedFor) {
  EXPECT_THAT(rendered({}), Not(HasSubstr("\x1b[")));
  EXPECT_EQ(rendered({.color = true}),
            "\x1b[2m# header\x1b[0m\n"
            "\x1b[1mtopology  policy      step  speedup\x1b[0m\n"
            "rail      dedup       2 ms    1.00x\n"
            "rail      a,\"b\"   1.005 ms    1.99x\n"
            "\n"
            "# what is held\n"
            "\x1b[1mtopology  policy  load max/mean    memory\x1b[0m\n"
            "rail      dedup            1.50      2 kB\n"
            "rail      a,\"b\"            1.10  33.55 MB\n"
            "\x1b[2m# note: one\x1b[0m\n");
  EXPECT_EQ(render(Printout().add("# one\n# two\nthree\n"), {.color = true}).text,
            "\x1b[2m# one\x1b[0m\n\x1b[2m# two\x1b[0m\nthree\n");
}

/// A row that ends before the last column, and blocks of which one says nothing.
Printout gaps() {
  Table table("gaps", 1, {"policy", "step", "memory", "load"});
  table.columns[2].block = 1;
  table.columns[2].telling = false;
  table.columns[3].block = 2;
  table.rows = {{"a"}, {"b|c", Seconds(2), Bytes(3), "1"}};
  return Printout().add(table);
}

TEST(Render, WhatARowDoesNotSayIsEmpty) {
  EXPECT_EQ(gaps().text(),
            "policy  step\n"
            "a\n"
            "b|c      2 s\n"
            "\n"
            "policy  load\n"
            "a\n"
            "b|c        1\n");
  EXPECT_EQ(render(gaps(), {.format = PrintFormat::csv}).text,
            "policy,step [s],memory [B],load\na,,,\nb|c,2,3,1\n");
  EXPECT_EQ(render(gaps(), {.columns = {"load", "step"}}).text, "load  step\n\n   1   2 s\n");
  EXPECT_THAT(render(gaps(), {.format = PrintFormat::markdown}).text,
              AllOf(HasSubstr("| policy | step |\n| --- | ---: |\n| a |  |\n| b\\|c | 2 s |\n"),
                    HasSubstr("| policy | load |\n")));
}

TEST(Render, WhatHasNoNumberComesLast) {
  Table table("t", 1, {"policy", "step"});
  table.rows = {{"none", "-"}, {"slow", 2}, {"fast", 1}};
  const auto sorted = [&](const std::string& by) {
    return render(Printout().add(table), {.sort = by}).text;
  };
  EXPECT_EQ(sorted("step"), "policy  step\nfast       1\nslow       2\nnone       -\n");
  EXPECT_EQ(sorted("-step"), "policy  step\nslow       2\nfast       1\nnone       -\n");
  EXPECT_EQ(sorted("-policy"), "policy  step\nslow       2\nnone       -\nfast       1\n");
}

TEST(Render, ALineAsLongAsTheTerminalIsWideStays) {
  const Printout line = Printout().add("# aaaa bbbb\n");
  EXPECT_EQ(render(line, {.width = 11}).text, "# aaaa bbbb\n");
  EXPECT_EQ(render(line, {.width = 10}).text, "# aaaa\n#   bbbb\n");
}

TEST(Align, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(align({{"a", "1"}, {"bcd", "22", "x"}}, 1), "a     1\nbcd  22  x\n");
  EXPECT_EQ(align({{"a", ""}, {"b", "2"}}, 2), "a\nb  2\n");
}

TEST(ColumnFlag, IsTheNameInSmallLettersAndDashes) {
  EXPECT_EQ(column_flag("load max/mean"), "load-max-mean");
  EXPECT_EQ(column_flag(" (GPU #2) "), "gpu-#2");
}

TEST(Render, NamesAreCutBeforeFiguresGo) {
  Table table("t", 1, {"policy", "step", "speedup", "memory"});
  table.rows = {{"predictive-replication-interpretation", "2 ms", "1.00x", "2 kB"}};
  EXPECT_EQ(render(Printout().add(table), {.width = 40, .hint = false}).text,
            "policy                     step  speedup\n"
            "predictive-r..erpretation  2 ms    1.00x\n");
  // Of equally long ones the first.
  Table two("t", 2, {"a", "b", "x", "y"});
  two.rows = {{"aaaaaaaaaabbbbbbbbbb", "ccccccccccdddddddddd", "1", "2"}};
  EXPECT_EQ(render(Printout().add(two), {.width = 47}).text,
            "a                    b                     x  y\n"
            "aaaaaaaaa..bbbbbbbb  ccccccccccdddddddddd  1  2\n");
  EXPECT_THAT(render(Printout().add(two), {.width = 45}).text,
              HasSubstr("aaaaaaaa..bbbbbbbb  ccccccccc..dddddddd  1  2\n"));
  EXPECT_THAT(render(Printout().add(two), {.width = 20, .hint = false}).text,
              HasSubstr("aaaaa..bbbbb  ccccc..ddddd\n"));
}

TEST(Render, SentencesAreWrappedBesideTheirNames) {
  Table table("t", 1, {"name", "description", "GPUs"});
  table.columns[1].kind = TableColumn::Kind::prose;
  table.rows = {{"rail", "nodes of eight with one NIC per GPU on a rail-optimized fabric", 32}};
  EXPECT_EQ(render(Printout().add(table), {.width = 52}).text,
            "name  description                               GPUs\n"
            "rail  nodes of eight with one NIC per GPU on a    32\n"
            "      rail-optimized fabric\n");
  EXPECT_EQ(render(Printout().add(table), {.width = 60}).text,
            "name  description                                       GPUs\n"
            "rail  nodes of eight with one NIC per GPU on a            32\n"
            "      rail-optimized fabric\n");
  EXPECT_EQ(Printout().add(table).text(),
            "name  description                                                     GPUs\n"
            "rail  nodes of eight with one NIC per GPU on a rail-optimized fabric    32\n");
}

}  // namespace
}  // namespace moesim
