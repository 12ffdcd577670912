// SPDX-License-Identifier: Apache-2.0
// Items of JSON files, nested lists, fields of tables and rows of logs, each by a few lines of
// text.
#include "sim/import/json_items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "sim/import/table_rows.h"
#include "sim/import/table_values.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::HasSubstr;

/// "LINE:TEXT" of each item, then the first line of what is wrong.
std::vector<std::string> items_of(const std::string& text, bool whole = false) {
  const ScratchFolder scratch;
  write_bytes(scratch / "a", text);
  std::vector<std::string> found;
  const std::string error = error_of([&] {
    JsonItems items(scratch / "a");
    while (whole ? items.next_whole() : items.next()) {
      EXPECT_EQ(items.number(), std::ssize(found));
      EXPECT_EQ(items.where(), fmt::format("{}:{}", scratch / "a", items.line()));
      found.push_back(fmt::format("{}:{}", items.line(), items.text()));
    }
    EXPECT_EQ(items.done(), 1);
  });
  if (!error.empty()) {
    const auto at = error.find("/a:") + 2;
    found.push_back(error.substr(at, error.find('\n') - at));
  }
  return found;
}

TEST(JsonItemsOf, AreValuesInListsAndLines) {
  EXPECT_THAT(items_of("{\"a\": 1}\n{\"b\": [2, {}]}\n\n3\n"),
              ElementsAre("1:{\"a\": 1}", "2:{\"b\": [2, {}]}", "4:3"));
  EXPECT_THAT(items_of("[1, [2],\n\"x\" , {\"a\":\n1}, true]"),
              ElementsAre("1:1", "1:[2]", "2:\"x\"", "2:{\"a\":\n1}", "3:true"));
  EXPECT_THAT(items_of("[]\n[ ]\r\n\t[7]"), ElementsAre("3:7"));
  EXPECT_THAT(items_of(R"([{"}": "]\"}\\"}, {"b": "\\\\"}])"),
              ElementsAre(R"(1:{"}": "]\"}\\"})", R"(1:{"b": "\\\\"})"));
  EXPECT_THAT(items_of("{\"a\": \"x\ny\"}"), ElementsAre(HasSubstr("error: not JSON")));
  EXPECT_TRUE(items_of("").empty());
  EXPECT_TRUE(items_of(" \n").empty());
}

TEST(JsonItemsOf, StandBetweenMarks) {
  EXPECT_THAT(items_of("\xef\xbb\xbf{}\n"), ElementsAre("1:{}"));
  EXPECT_THAT(items_of("event: a\ndata: {}\n\ndata: [1, 2]\ndata: [DONE]\n"),
              ElementsAre("2:{}", "4:1", "4:2"));
  EXPECT_THAT(items_of("HTTP/1.1 200 OK\r\na: {\r\n\r\n{}\n"), ElementsAre("4:{}"));
  EXPECT_THAT(items_of("HTTP/1.1 200 OK\na: [\n\n{}\n{}"), ElementsAre("4:{}", "5:{}"));
}

TEST(JsonItemsOf, WhatIsNotJsonHasItsLine) {
  EXPECT_THAT(
      items_of("[1 2]"),
      ElementsAre("1:1", ":1: error: not JSON: expected ',' or ']' after an item of the list"));
  EXPECT_THAT(items_of("[1,\n"),
              ElementsAre("1:1", ":2: error: not JSON: unexpected end of input"));
  EXPECT_THAT(items_of("\n[1,]"), ElementsAre("2:1", HasSubstr(":2:1: error: not JSON")));
  EXPECT_THAT(items_of("{}\n{\"a\": nope}"), ElementsAre("1:{}", HasSubstr(":2")));
  EXPECT_THAT(items_of("{\"a\": [1}"), ElementsAre(HasSubstr("error: not JSON")));
}

TEST(JsonItemsOf, TheLastMayBeCutShort) {
  EXPECT_THAT(items_of("{}\n{\"a\": ", true), ElementsAre("1:{}"));
  EXPECT_THAT(items_of("{}\n{\"a\": \"x", true), ElementsAre("1:{}"));
  EXPECT_THAT(items_of("{\"a\": ", true), ElementsAre(HasSubstr("error: not JSON")))
      << "the only one";
  EXPECT_THAT(items_of("[{}, {\"a\": ", true), ElementsAre("1:{}", HasSubstr("error: not JSON")));
  EXPECT_THAT(items_of("{}\n{\"a\": "), ElementsAre("1:{}", HasSubstr("error: not JSON")));
}

// What follows a broken line would be lost with it.
TEST(JsonItemsOf, OnlyTheLastMayBeCutShort) {
  const std::string row = "{\"r\": 1, \"e\": [2]}\n";
  const auto broken = HasSubstr(":2: error: not JSON: the value that begins here does not end");
  for (const char* const second :
       {"{\"r\": 1,\n", "{\"r\": 1, \"e\": [2]\n", "{\"r\": 1, \"e\": [[2]}\n",
        "{\"r\": 1, \"e{\"r\": 1, \"e\": [2]}\n", "{\"r\": 1, {\"r\": 1, \"e\": [2]}\n"}) {
    for (const bool whole : {true, false}) {
      EXPECT_THAT(items_of(row + second + row, whole), ElementsAre(_, broken)) << second;
    }
  }
  EXPECT_THAT(items_of(row + "{\"r\": 1, {\"r\": 1, \"e\": [2]}\n", true), ElementsAre(_, broken))
      << "two writers in the last line";
  EXPECT_THAT(items_of("{\"r\n" + row + row),
              ElementsAre(HasSubstr(":1: error: not JSON: the value that begins here")));
  EXPECT_THAT(items_of(row + "{\"r\": [{\"r\": 1}\r\n \n", true), ElementsAre(_));
  const std::string spread = "{\n  \"r\": {\n    \"e\": [2]\n  }\n}\n";
  EXPECT_THAT(items_of(spread + spread, true), ElementsAre(_, _));
  EXPECT_THAT(items_of(spread + "{\n  \"r\": {\n    \"e\"", true), ElementsAre(_));
  EXPECT_THAT(items_of(spread + "{\n  \"r\": {\n    \"e\"\n" + spread, true),
              ElementsAre(_, HasSubstr(":6: error: not JSON: the value that begins here")));
}

/// Lives until the next one.
JsonElement parsed(const std::string& text) {
  static simdjson::dom::parser parser;
  return parser.parse(text).value();
}

TEST(JsonLists, AreRegularArraysOfWholeNumbers) {
  const auto array = [](const std::string& text, std::size_t axes) {
    std::string found;
    const std::string error = error_of([&] {
      const NpyArray of = array_of_lists(parsed(text), axes, "w", "counts");
      found = shape_text(of.shape());
      for (std::int64_t i = 0; i < of.count(); ++i) found += fmt::format(" {}", of.integer(i));
    });
    return error.empty() ? found : error.substr(10, error.find('\n') - 10);
  };
  EXPECT_EQ(array("[[1, 2, 3], [4, 5, -6]]", 2), "(2, 3) 1 2 3 4 5 -6");
  EXPECT_EQ(array("[7.0, 2147483647]", 1), "(2,) 7 2147483647");
  EXPECT_EQ(array("[]", 1), "(0,)");
  EXPECT_EQ(array("[]", 2), "(0, 0)");
  EXPECT_EQ(array("[[], []]", 2), "(2, 0)");
  const std::string uneven = "holds counts of different lengths";
  EXPECT_EQ(array("[[1], [2, 3]]", 2), uneven);
  EXPECT_EQ(array("[[1, 2], [3]]", 2), uneven);
  EXPECT_EQ(array("[[1], 2]", 2), uneven);
  EXPECT_EQ(array("[1]", 2), "holds counts of 1 axes, not 2");
  EXPECT_EQ(array("{}", 1), "holds no lists of counts");
  for (const char* const wrong :
       {"[0.5]", "[-2147483649]", "[1e300]", "[\"1\"]", "[[1]]", "[null]"}) {
    EXPECT_EQ(array(wrong, 1), "holds counts that are not whole numbers") << wrong;
  }
  const std::string most = " among its counts; at most 2147483647 can be";
  EXPECT_EQ(array("[2147483648]", 1), "holds 2147483648" + most);
  EXPECT_EQ(array("[1e12]", 1), "holds 1000000000000" + most);
}

TEST(JsonLists, HaveAxesKeysAndNumbers) {
  EXPECT_EQ(axes_of(parsed("5")), 0U);
  EXPECT_EQ(axes_of(parsed("[]")), 1U);
  EXPECT_EQ(axes_of(parsed("[[[1]]]")), 3U);
  EXPECT_TRUE(json_keys(parsed("[1]")).empty());
  EXPECT_FALSE(json_at(parsed("[1]"), "a"));
  const JsonElement object = parsed(R"({"a": 3, "b": null, "c": -1, "d": 0, "e": 2.5})");
  EXPECT_THAT(json_keys(object), ElementsAre("a", "b", "c", "d", "e"));
  const auto number = [&](const char* key, std::int64_t most) {
    return json_number(json_at(object, key), most);
  };
  EXPECT_EQ(number("a", 3), 3);
  EXPECT_EQ(number("a", 2), -1);
  EXPECT_EQ(number("d", 0), 0);
  for (const char* const none : {"b", "c", "e", "f"}) EXPECT_EQ(number(none, 9), -1) << none;
}

/// What a row says, in words.
std::string words_of(const TableRow& row) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<std::int64_t>& value) {
    if (value) text += fmt::format(" {}{}", name, *value);
  };
  if (!row.request.empty()) text += " req " + row.request;
  add("step", row.step), add("rank", row.rank), add("token", row.token), add("layer", row.layer);
  add("slot", row.slot);
  text += fmt::format(" {}", row.experts);
  if (row.lists > 0) text += fmt::format("x{}{}", row.lists, row.nested ? "n" : "");
  if (!row.weights.empty()) text += fmt::format(" w{}", row.weights);
  if (!row.counts.empty()) text += fmt::format(" c{}", row.counts);
  return fmt::format("{}:{}", row.line, text + (row.phase.empty() ? "" : " " + row.phase));
}

/// All rows of a file, then what is wrong.
std::vector<std::string> rows_of_text(const std::string& text,
                                      const std::vector<std::string>& map = {},
                                      TableFacts* facts = nullptr) {
  const ScratchFolder scratch;
  write_bytes(scratch / "a", text);
  std::vector<std::string> rows;
  const std::string error = error_of([&] {
    TableReader reader(
        map, [&](TableRow& row) { rows.push_back(words_of(row)); }, [](double) {});
    reader.read(scratch / "a");
    if (facts != nullptr) *facts = reader.facts();
  });
  if (!error.empty()) {
    rows.push_back(error.substr(error.find("error: "), error.find('\n') - error.find("error: ")));
  }
  return rows;
}

TEST(RowsOfText, HaveTheColumnsOfTheirHeader) {
  EXPECT_THAT(
      rows_of_text("# a remark\nlayer,token,expert\n1,0,3\n2,0,4\nlayer,token,expert\n1,1,5\n"),
      ElementsAre("3: token0 layer1 [3]", "4: token0 layer2 [4]", "6: token1 layer1 [5]"));
  EXPECT_THAT(rows_of_text("\xef\xbb\xbflayer;expert\n1;3\n"), ElementsAre("2: layer1 [3]"));
  EXPECT_THAT(rows_of_text("layer token expert\n0 1 0 3\n1 1 1 4\n"),
              ElementsAre("2: token0 layer1 [3]", "3: token1 layer1 [4]"))
      << "pandas prints an index";
  EXPECT_THAT(rows_of_text("1,7,3\n2,8,4\n", {"layer=1", "experts=3"}),
              ElementsAre("1: layer1 [3]", "2: layer2 [4]"));
  EXPECT_THAT(rows_of_text("1 7 3\n", {"layer=1", "experts=3"}), ElementsAre("1: layer1 [3]"));
  EXPECT_THAT(rows_of_text("layer,expert\n1,3\n1\n"), ElementsAre("2: layer1 [3]"))
      << "the last one may be cut";
  EXPECT_THAT(rows_of_text("layer,expert\n1\n1,3\n"),
              ElementsAre("error: has cells for some of its 2 columns only"));
  EXPECT_THAT(rows_of_text("a,b\n1,2\n"),
              ElementsAre(HasSubstr("is text with the columns a, b; none is known")));
}

TEST(RowsOfText, HaveNoMoreCellsThanNames) {
  EXPECT_THAT(rows_of_text("layer,expert\n1,3\n1,32,4\n"),
              ElementsAre("2: layer1 [3]", "error: has 3 cells below 2 columns"));
  EXPECT_THAT(rows_of_text("layer,expert\n1,3,\n2,4\n"),
              ElementsAre("2: layer1 [3]", "3: layer2 [4]"));
}

// A row of numbers is no header, though the flags name a column by one of them.
TEST(RowsOfText, NumbersAreNoNames) {
  for (const char* const text : {"1,3,3\n1,4,4\n", "1 3 3\n1 4 4\n"}) {
    EXPECT_THAT(rows_of_text(text, {"layer=1", "experts=3"}),
                ElementsAre("1: layer1 [3]", "2: layer1 [4]"))
        << text;
  }
}

TEST(RowsOfText, RemarksSayHowManyExpertsThereAre) {
  TableFacts facts;
  rows_of_text("# n_expert=128 n_expert_used=8 x=1\nlayer,expert\n1,3\n", {}, &facts);
  EXPECT_EQ(facts.experts, 128);
  EXPECT_EQ(facts.top_k, 8);
  for (const auto& [remark, found] :
       std::vector<std::pair<std::string, int>>{{"# n_expert=999999", 999999},
                                                {"# n_expert=1000000", 0},
                                                {"# n_expert=0", 0},
                                                {"# n_expert=[3]", 0},
                                                {"# n_expert=x", 0},
                                                {"# n_expert", 0}}) {
    facts = {};
    rows_of_text(remark + "\nlayer,expert\n1,3\n", {}, &facts);
    EXPECT_EQ(facts.experts, found) << remark;
  }
}

TEST(RowsOfJson, HaveWhatTheObjectsAroundThemSay) {
  EXPECT_THAT(
      rows_of_text(R"({"request_id": "r", "tokens": [{"token": 4, "layer": 1, "experts": [3, 4]},
{"token": 5, "layer": 1, "experts": [5, 6], "request_id": "q"}]})"),
      ElementsAre("1: req r token4 layer1 [3, 4]x1", "1: req q token5 layer1 [5, 6]x1"));
  EXPECT_THAT(
      rows_of_text(
          R"({"layer": 2, "topk_ids": [[1, 2], [3, 4]], "topk_weights": [[0.5, 0.5], [1, 0]]})"),
      ElementsAre("1: layer2 [1, 2, 3, 4]x2n w[0.5, 0.5, 1, 0]"));
  EXPECT_THAT(
      rows_of_text(R"({"token": 0, "layer_1": [3, 4], "layers_2": [5, 6], "other_3": [7]})"),
      ElementsAre("1: token0 layer1 [3, 4]x1", "1: token0 layer2 [5, 6]x1"));
  EXPECT_THAT(rows_of_text(R"({"token": 0, "layers": {"1": [3], "2": {"experts": [4]}}})"),
              ElementsAre("1: token0 layer1 [3]x1", "1: token0 layer2 [4]x1"));
  EXPECT_THAT(rows_of_text(R"({"layer": 1, "expert": 3, "count": 7, "phase": "decode"})"),
              ElementsAre("1: layer1 [3] c[7] decode"));
  EXPECT_THAT(rows_of_text(R"({"a": [1, 2]})"), ElementsAre(HasSubstr("is JSON with the keys a")));
  EXPECT_THAT(rows_of_text(R"({"layer": 1, "who": [3], "experts": [9]})", {"experts=who"}),
              ElementsAre("1: layer1 [3]x1"));
}

TEST(RowsOfJson, NameLayersInTheirKeys) {
  EXPECT_THAT(rows_of_text(R"({"token": 0, "layer_0": [3], "blk.1": [4], "L2": [5],
                               "model.layers.3.mlp": [6], "4": [7], "layer_5x": [8], "x6": [9]})"),
              ElementsAre("1: token0 layer0 [3]x1", "1: token0 layer1 [4]x1",
                          "1: token0 layer2 [5]x1", "1: token0 layer3 [6]x1"));
  EXPECT_THAT(rows_of_text(R"({"0": [3], "layers 7": [4]})"),
              ElementsAre("1: layer0 [3]x1", "1: layer7 [4]x1"));
  EXPECT_THAT(rows_of_text(R"({"token": 2, "layers": {"0": [3], "1": {"expert": 4}, "2": 5}})"),
              ElementsAre("1: token2 layer0 [3]x1", "1: token2 layer1 [4]"));
  EXPECT_THAT(rows_of_text(R"({"layers": {"0": {"layer": 9, "expert": 4}}})"),
              ElementsAre("1: layer9 [4]"))
      << "what the row says itself";
}

TEST(RowsOfJson, AreThirtyTwoListsDeep) {
  const auto deep = [](std::size_t lists) {
    return rows_of_text(std::string(lists, '[') + R"({"layer": 1, "expert": 3})" +
                        std::string(lists, ']'));
  };
  EXPECT_THAT(deep(33), ElementsAre("1: layer1 [3]")) << "the outermost is the file's";
  EXPECT_THAT(deep(34), ElementsAre(HasSubstr("none is known to hold expert ids")));
}

TEST(RowsOfJson, FactsAreNoRows) {
  TableFacts facts;
  const auto rows = rows_of_text(
      R"({"num_experts": 16, "top_k": 2, "rows": [{"layer": 1, "token": 0, "experts": [3, 4]}]})",
      {}, &facts);
  EXPECT_THAT(rows, ElementsAre(HasSubstr("token0 layer1 [3, 4]x1")));
  EXPECT_EQ(facts.experts, 16);
  EXPECT_EQ(facts.top_k, 2);
}

TEST(RowsOfLogs, HaveWhatTheLinesBeforeSay) {
  EXPECT_THAT(
      rows_of_text("step 4 layer 1: chosen experts [3, 4]\n[5, 6]\nlayer 2\nexpert ids: [7, 0]\n"),
      ElementsAre("1: step4 layer1 [3, 4]x1", "2: step4 layer1 [5, 6]x1",
                  "4: step4 layer2 [7, 0]x1"));
  EXPECT_THAT(rows_of_text("request 7\nlayer 1 expert_0 3\nrank 2 layer 1 expert 4 weight 0.5\n"),
              ElementsAre(HasSubstr("req 7"), HasSubstr("req 7 rank2 layer1 [4] w[0.5]")));
  EXPECT_THAT(
      rows_of_text("layer 1 took 0.5 ms [0.5, 1]\nlayer 1 [1048575, 0]\nlayer 1 [1048576, 0]\n"),
      ElementsAre("2: layer1 [1048575, 0]x1"));
}

TEST(ValuesOfFields, AreBounded) {
  EXPECT_EQ(layer_in_name("a.1048575"), 1048575);
  EXPECT_EQ(layer_in_name("a.1048576"), std::nullopt);
  EXPECT_EQ(layer_in_name("none"), std::nullopt);
  EXPECT_EQ(layer_in_name("a1b2"), std::nullopt);
  const auto filled = [](TableRole role, const std::string& text) {
    TableRow row;
    fill(row, role, value_of_text(text), "f", false);
    return words_of(row);
  };
  EXPECT_EQ(filled(TableRole::experts, "1073741824"), "0: [1073741824]");
  EXPECT_THROW(filled(TableRole::experts, "1073741825"), Error);
  EXPECT_EQ(filled(TableRole::count, "8e15"), "0: [] c[8000000000000000]");
  EXPECT_THROW(filled(TableRole::count, "9e15"), Error);
  EXPECT_EQ(filled(TableRole::step, "4"), "0: step4 []");
  EXPECT_EQ(filled(TableRole::rank, "4"), "0: rank4 []");
  EXPECT_EQ(filled(TableRole::token, "4"), "0: token4 []");
  EXPECT_EQ(filled(TableRole::slot, "4"), "0: slot4 []");
  EXPECT_EQ(filled(TableRole::token, "4.5"), "0: []");
  EXPECT_EQ(filled(TableRole::token, "[4]"), "0: []");
  EXPECT_EQ(filled(TableRole::request, "4"), "0: req 4 []");
  EXPECT_EQ(filled(TableRole::request, "[4]"), "0: req [4] []");
  EXPECT_EQ(filled(TableRole::phase, "decode"), "0: [] decode");
  EXPECT_EQ(filled(TableRole::phase, "4"), "0: []");
  TableFacts facts;
  note_fact("n_expert", 1 << 20, facts);
  note_fact("topk", 1, facts);
  EXPECT_EQ(facts.experts, 1 << 20);
  EXPECT_EQ(facts.top_k, 1);
  note_fact("n_expert", (1 << 20) + 1, facts);
  note_fact("topk", 0, facts);
  EXPECT_EQ(facts.experts, 1 << 20);
  EXPECT_EQ(facts.top_k, 1);
}

}  // namespace
}  // namespace moesim
