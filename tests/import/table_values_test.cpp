// SPDX-License-Identifier: Apache-2.0
// Fields of logs as numbers, lists and names, and rows that are filled with them.
#include "sim/import/table_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TableValues, OfTextAreOneNumberOrAList) {
  const auto lists = [](const char* text) { return value_of_text(text).lists; };
  EXPECT_EQ(lists("3"), 0);
  EXPECT_EQ(lists(" 3 "), 0);
  EXPECT_EQ(lists("[3]"), 1);
  EXPECT_EQ(lists("(3)"), 1);
  EXPECT_EQ(lists("3 6"), 1);
  EXPECT_THAT(value_of_text("[3, -6;0.5]").numbers, ElementsAre(3, -6, 0.5));
}

TEST(TableValues, ThatAreNoNumbersAreText) {
  for (const char* text : {"", "[]", "+3", "3x", "x3", "3 x"}) {
    const TableValue value = value_of_text(text);
    EXPECT_FALSE(value.numeric) << text;
    EXPECT_EQ(value.text, text);
  }
  EXPECT_TRUE(value_of_text("3").numeric);
}

TEST(TableValues, OfJsonCountTheirInnermostLists) {
  simdjson::dom::parser parser;
  const auto read = [&](const char* text) {
    return value_of_json(parser.parse(std::string(text)).value());
  };
  EXPECT_EQ(read("3")->lists, 0);
  EXPECT_EQ(read("[3, 6]")->lists, 1);
  EXPECT_FALSE(read("[3, 6]")->nested);
  EXPECT_EQ(read("[[3, 6], [1, 2], [0, 4]]")->lists, 3);
  EXPECT_TRUE(read("[[3, 6], [1, 2], [0, 4]]")->nested);
  EXPECT_THAT(read("[[3, 6], [1, 2]]")->numbers, ElementsAre(3, 6, 1, 2));
  EXPECT_FALSE(read("[[[3]]]")) << "too deep";
  EXPECT_FALSE(read("[3, {}]"));
}

/// A row of columns whose names are those of roles, or of roles by `map`.
TableRow filled(const std::vector<std::string>& names, const std::vector<const char*>& values,
                const std::vector<std::string>& map = {}) {
  const TableFields fields(map);
  TableRow row;
  fill_row(row, fields.find(names, "test"), fields, names,
           [&](std::size_t field) { return std::optional(value_of_text(values[field])); });
  return row;
}

TEST(TableValues, FillTheirPlaceInTheRow) {
  const TableRow row = filled({"request", "rank", "layer", "experts", "weights", "phase"},
                              {"7", "2", "model.layers.5.gate", "[3, 6]", "0.5 0.25", "decode"});
  EXPECT_EQ(row.request, "7");
  EXPECT_EQ(row.rank, 2);
  EXPECT_EQ(row.layer, 5);
  EXPECT_EQ(row.lists, 1);
  EXPECT_THAT(row.experts, ElementsAre(3, 6));
  EXPECT_THAT(row.weights, ElementsAre(0.5f, 0.25f));
  EXPECT_EQ(row.phase, "decode");
  EXPECT_FALSE(row.token);
  EXPECT_EQ(filled({"layer", "experts"}, {"1.2", "3"}).lists, 0);
  EXPECT_FALSE(filled({"layer", "experts"}, {"block 1 of 2", "3"}).layer) << "which of the two?";
  EXPECT_EQ(filled({"layer", "experts"}, {"block 1048575", "3"}).layer, 1048575);
  EXPECT_FALSE(filled({"layer", "experts"}, {"block 1048576", "3"}).layer) << "no layer";
}

TEST(TableValues, ThatDoNotFitAreRefusedIfTheyAreMapped) {
  const auto refused = [](const auto&... row) {
    const std::string text = error_of([&] { filled(row...); });
    return text.substr(0, text.find('\n'));
  };
  using Names = std::vector<std::string>;
  using Values = std::vector<const char*>;
  EXPECT_EQ(refused(Names{"experts"}, Values{"none"}),
            "error: field 'experts' holds 'none', not expert ids");
  EXPECT_EQ(refused(Names{"experts"}, Values{"0.5"}),
            "error: field 'experts' holds 0.5, not expert ids");
  EXPECT_EQ(refused(Names{"experts"}, Values{"[-2, 3]"}),
            "error: field 'experts' holds 2 numbers, first -2, not expert ids");
  EXPECT_THAT(filled({"experts"}, {"-1"}).experts, ElementsAre(-1)) << "dropped";
  EXPECT_THAT(filled({"experts", "weights"}, {"3", "none"}).weights, IsEmpty());
  EXPECT_EQ(refused(Names{"experts", "w"}, Values{"3", "none"}, Names{"weights=w"}),
            "error: field 'w' holds 'none', not numbers");
  EXPECT_EQ(refused(Names{"experts", "c"}, Values{"3", "1.5"}, Names{"count=c"}),
            "error: field 'c' holds 1.5, not whole numbers");
  EXPECT_EQ(refused(Names{"experts", "s"}, Values{"3", "[1, 2]"}, Names{"step=s"}),
            "error: field 's' holds 2 numbers, first 1, not a whole number");
}

TEST(TableValues, OfSeveralColumnsOfExpertsAreOneList) {
  const TableRow row =
      filled({"expert_0", "expert_1", "weight_0", "weight_1"}, {"3", "6", "0.5", "0.25"});
  EXPECT_EQ(row.lists, 1);
  EXPECT_THAT(row.experts, ElementsAre(3, 6));
  EXPECT_EQ(filled({"expert", "weight_0", "weight_1"}, {"3", "0.5", "0.25"}).lists, 0);
}

}  // namespace
}  // namespace moesim
