// SPDX-License-Identifier: Apache-2.0
// Tables with a row per layer and expert hold counts, whatever the column of the counts is called.
#include <gmock/gmock.h>

#include "tests/error_of.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// 16 rows: of each layer and expert a number, five unless said otherwise.
std::string table_of_experts(const std::string& header, const std::string& number = "5") {
  std::string text = header + "\n";
  for (int layer = 1; layer < 3; ++layer) {
    for (int e = 0; e < 8; ++e) text += fmt::format("{},{},{}\n", layer, e, number);
  }
  return text;
}

/// Tokens that kind `table` makes of a text and the first warning, or the error.
std::string tokens_of_table(const std::string& name, const std::string& text,
                            const std::vector<std::string>& map = {}) {
  const ScratchFolder scratch;
  write_bytes(scratch / ("in/" + name), text);
  auto options = options_of(scratch / "in", scratch / "out");
  options.map = map;
  std::string told_tokens;
  const std::string error = error_of([&] {
    const Imported imported = import_trace("table", options);
    told_tokens = fmt::format("{}", RoutingTrace::open(scratch / "out").total_tokens());
    if (!imported.warnings.empty()) {
      const Diagnostic& first = imported.warnings.front();
      told_tokens += fmt::format(" {} ({})", first.message, first.hint);
    }
  });
  return error.empty() ? told_tokens : error.substr(error.find("error: "));
}

TEST(TablesOfCounts, HaveThemUnderManyNames) {
  for (const char* name : {"tokens", "load", "usage", "total", "Selections", "num_selected",
                           "total_tokens", "cnt", "occurrences"}) {
    EXPECT_EQ(tokens_of_table("a.csv", table_of_experts(std::string("layer,expert,") + name)), "20")
        << name;
  }
}

/// The counts of layer 1 and 2 of formats.py's model, whose layer 0 is dense.
std::string counts_told(const std::string& kind, const TextsByName& texts,
                        const std::function<void(ImportOptions&)>& change = {}) {
  return told_of(kind, texts, [&](ImportOptions& o) {
    o.experts = 4, o.top_k = 1, o.moe_layers = {1, 2}, o.model_layers = 3;
    if (change) change(o);
  });
}

TEST(TablesOfCounts, MayListDenseLayers) {
  const std::string rows = "1,0,1\n1,3,1\n2,1,2\n", header = "layer_id,expert_id,count\n";
  const std::string dense = "0,0,0\n0,1,0\n0,2,0\n0,3,0\n";
  const std::string sound = counts_told("sglang-counts", {{"a.csv", header + rows}});
  EXPECT_THAT(sound, HasSubstr("1: 0 3 2: 1 1"));
  EXPECT_EQ(counts_told("sglang-counts", {{"a.csv", header + dense + rows}}), sound);
  EXPECT_EQ(counts_told("table", {{"a.csv", header + dense + rows}}), sound);
}

TEST(CountsOfAllLayers, AreOfTheModelsLayers) {
  const std::string four = R"({"logical_count": [[[0,0,0,0],[1,0,0,1],[0,2,0,0],[1,1,0,0]]]})";
  EXPECT_THAT(counts_told("sglang-counts", {{"a.json", four}}),
              HasSubstr("has 4 layers, 3 of them with counts, but the model has 3, 2 of them with "
                        "experts\nhint: another model?"));
  EXPECT_THAT(counts_told("sglang-counts", {{"a.json", four}}, [](auto& o) { o.mtp_layers = 1; }),
              HasSubstr("1: 0 3 2: 1 1"))
      << "that of multi-token prediction is left out";
  const auto with_layers = [&](const std::vector<int>& layers) {
    return counts_told("sglang-counts", {{"a.json", four}}, [&](ImportOptions& o) {
      o.moe_layers = {}, o.model_layers = 0, o.layers = layers;
    });
  };
  EXPECT_THAT(with_layers({1, 2, 3}), HasSubstr("1: 0 3 2: 1 1 3: 0 1"));
  EXPECT_THAT(with_layers({2, 3, 4, 5, 6}),
              HasSubstr("has 4 layers, 3 of them with counts, but --layers names 2, 3, 4, 5, 6"));
  const std::string odd = R"({"logical_count": [[[0,0,0,0],[1,0,0,1],[0,3,0,0]]]})";
  EXPECT_THAT(counts_told("sglang-counts", {{"a.json", odd}},
                          [](ImportOptions& o) {
                            o.moe_layers = {}, o.model_layers = 0, o.layers = {1, 2};
                          }),
              HasSubstr("add up to 3 in layer 2 of the file but to 2"));
}

TEST(TablesOfCounts, NeedRows) {
  EXPECT_EQ(counts_told("sglang-counts", {{"a.csv", "layer_id,expert_id,count\n"}}),
            "error: has no rows below the names of its columns\n");
}

TEST(TablesOfChoices, MayBeMarkdown) {
  const std::string rows = "| 0 | 1 | [0] |\n| 0 | 2 | [3] |\n";
  EXPECT_EQ(counts_told("table", {{"a.md", "| token | layer | experts |\n|---|--:|---|\n" + rows}}),
            counts_told("table", {{"a.md", "| token | layer | experts |\n" + rows}}));
}

TEST(TablesOfCounts, ThatAreNotWholeAreNamedWithTheirLine) {
  const ScratchFolder scratch;
  const auto told_error = [&](const std::string& text) {
    write_bytes(scratch / "in/a.csv", text);
    return error_of([&] { import_trace("table", options_of(scratch / "in", scratch / "out")); });
  };
  EXPECT_THAT(told_error("layer,expert,count\n1,0,0\n1,1,0.25\n2,0,1\n"),
              HasSubstr("a.csv:3: error: field 'count' holds 0.25, not whole numbers\n"
                        "hint: multiply all counts by the same number, or round them"));
  const std::string both = "a.csv:3: error: holds choices of tokens and counts of experts";
  EXPECT_THAT(told_error("layer,expert,count\n1,0,1\n1,1,none\n"), HasSubstr(both));
}

TEST(TablesOfCounts, HaveThemInJsonNextToTheExpert) {
  std::string lines;
  for (int rank = 0; rank < 2; ++rank) {
    for (int row = 0; row < 16; ++row) {
      lines += fmt::format(R"({{"rank": {}, "layer": {}, "expert": {}, "tokens": {}}})"
                           "\n",
                           rank, row / 8 + 1, row % 8, rank + 5);
    }
  }
  EXPECT_EQ(tokens_of_table("a.jsonl", lines), "44") << "20 and 24";
  // Tokens of the object around are nothing of an expert.
  EXPECT_EQ(tokens_of_table("a.json", R"({"tokens": 1, "rows": [
                {"layer": 1, "expert": 3}, {"layer": 1, "expert": 4},
                {"layer": 2, "expert": 0}, {"layer": 2, "expert": 1}]})"),
            "1");
}

TEST(TablesOfCounts, AreNotThoseOfNumberedTokens) {
  std::string choices = "token,layer,expert,load\n";
  for (const char* row : {"0,1,3,7", "0,1,4,7", "0,2,0,7", "0,2,1,7"}) {
    choices += std::string(row) + "\n";
  }
  EXPECT_EQ(tokens_of_table("a.csv", choices), "1");
  std::string lists;
  for (const int layer : {1, 2}) {
    lists += fmt::format(R"({{"layer": {}, "tokens": 2, "topk_ids": [[0, 1], [2, 3]]}})"
                         "\n",
                         layer);
  }
  EXPECT_THAT(tokens_of_table("a.jsonl", lists), StartsWith("2"));
}

TEST(TablesOfCounts, TakeTheOnlyNumberOfEachExpert) {
  for (const char* name : {"value", "num", "n", "anything"}) {
    EXPECT_EQ(tokens_of_table("a.csv", table_of_experts(std::string("layer,expert,") + name)),
              fmt::format("20 has each expert once per layer: '{}' is taken for counts (--map "
                          "count=FIELD names counts, token=FIELD the token of a choice)",
                          name));
  }
}

TEST(TablesOfCounts, MayCountEachExpertSeveralTimes) {
  std::string series = "timestamp,layer,expert,n\n";
  for (int row = 0; row < 48; ++row) {
    series += fmt::format("{}.5,{},{},5\n", row / 16, row / 8 % 2 + 1, row % 8);
  }
  EXPECT_THAT(tokens_of_table("a.csv", series), StartsWith("60 has each expert once per layer"));
}

TEST(TablesOfCounts, AskForTheFieldOfThem) {
  EXPECT_THAT(tokens_of_table("a.csv", table_of_experts("layer,expert,share", "0.125")),
              StartsWith("error: has each expert once per layer, and no field is known to count "
                         "its tokens: share\nhint: --map count=FIELD names counts"));
  EXPECT_THAT(tokens_of_table("a.csv", table_of_experts("layer,expert,freq", "0.125")),
              StartsWith("error: field 'freq' holds 0.125, not whole numbers\nhint: multiply all"));
  EXPECT_THAT(tokens_of_table("a.csv", table_of_experts("layer,expert,n,m", "5,6")),
              HasSubstr("no field is known to count its tokens: n, m"));
  EXPECT_EQ(tokens_of_table("a.csv", table_of_experts("layer,expert,n,m", "5,6"), {"count=m"}),
            "24");
}

TEST(TablesOfCounts, HaveTheLayerInTheirRows) {
  std::string columns = "expert,layer_1,layer_2\n";
  for (int e = 0; e < 8; ++e) columns += fmt::format("{},5,5\n", e);
  EXPECT_THAT(tokens_of_table("a.csv", columns), StartsWith("error: does not say its layer"));
  EXPECT_THAT(told_of("counts", {{"a.csv", columns}}), StartsWith("top 2 [1, 1"));
}

TEST(TablesOfCounts, MayBeChoicesThatDiffer) {
  // Two tokens without a common expert; "lot" is of no use.
  const std::string choices =
      "layer,expert,lot\n1,3,1\n1,4,1\n1,1,1\n1,2,1\n2,3,1\n2,4,1\n2,1,1\n2,2,1\n";
  EXPECT_THAT(tokens_of_table("a.csv", choices),
              StartsWith("2 has each expert once per layer: counts? Rows are taken for choices, "
                         "and lot for nothing"));
  EXPECT_THAT(tokens_of_table("a.csv", choices + "1,3,1\n1,4,1\n2,3,1\n2,4,1\n"),
              testing::Not(HasSubstr("counts?")))
      << "as experts come again";
}

}  // namespace
}  // namespace moesim
