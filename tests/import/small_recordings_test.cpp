// SPDX-License-Identifier: Apache-2.0
// Recordings of a few rows that leave something out, or say it in an unusual place.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/error_of.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string table_told(const std::string& rows, int top_k = 2, std::vector<int> layers = {}) {
  return told_of("table", {{"a.csv", rows}},
                 [&](ImportOptions& options) { options.top_k = top_k, options.layers = layers; });
}

TEST(RowsOfTables, OfAPassOfSeveralTokensBeginASequence) {
  EXPECT_EQ(table_told("layer,token,expert\n1,0,3\n1,1,4\n1,0,5\n1,1,6\n1,0,7\n", 1, {1}),
            "top 1 [2, 3] 1: 3 4 5 6 7");
}

TEST(RowsOfTables, OfTheSameTokenAreItsChoices) {
  const std::string head = "layer,token,expert\n";
  const std::string twice = "1,0,3\n1,0,4\n2,0,5\n2,0,6\n1,0,7\n1,0,0\n2,0,1\n2,0,2\n";
  for (const int top_k : {0, 2}) {
    EXPECT_EQ(table_told(head + twice, top_k), "top 2 [2] 1: 3 4 7 0 2: 5 6 1 2") << top_k;
  }
  const std::string in_turn = "1,0,3\n2,0,5\n1,0,4\n2,0,6\n";
  EXPECT_EQ(table_told(head + in_turn, 2), "top 2 [1] 1: 3 4 2: 5 6");
  EXPECT_EQ(table_told(head + in_turn, 0), "top 1 [2] 1: 3 4 2: 5 6");
  EXPECT_EQ(table_told("layer,token,slot,expert\n1,0,0,3\n1,0,1,4\n1,0,0,5\n1,0,1,6\n", 0, {1}),
            "top 2 [2] 1: 3 4 5 6");
}

TEST(RowsOfTables, ThatLackChoicesAreRefused) {
  EXPECT_EQ(
      table_told("layer,token,expert\n1,0,3\n1,1,4\n", 2, {1}),
      "error: token 0 of layer 1 has 1 of 2 choices\nhint: a list of them is [2, 4] or 2,4\n");
  EXPECT_EQ(
      table_told("layer,token,expert\n1,0,3\n1,1,4\n1,1,5\n1,2,6\n1,2,7\n", 2, {1}),
      "error: token 0 of layer 1 has 1 of 2 choices\nhint: a list of them is [2, 4] or 2,4\n");
  EXPECT_EQ(table_told("layer,expert\n1,3\n1,4\n1,0\n2,5\n2,6\n", 0),
            "error: does not say how many experts a token chooses\nhint: give --model or --top-k; "
            "no layer has fewer than 2 rows before the next one's\n");
  EXPECT_EQ(table_told("layer,token,experts\n1,0,[3 4]\n1,1,[5]\n", 2, {1}),
            "error: has 1 expert ids where the rows before have 2\n");
  EXPECT_THAT(table_told("layer,token,expert\n-1,0,3\n"),
              testing::StartsWith("error: has layer -1"));
}

TEST(RowsOfTables, ThatEndEarlyLackTheirLastToken) {
  const std::string whole = "layer,expert\n1,3\n1,4\n2,5\n2,6\n1,0\n1,1\n";
  const std::string one = "top 2 [1] 1: 3 4 2: 5 6\n1 row: of tokens that lack layers\n";
  EXPECT_EQ(table_told(whole + "2,7\n2,2\n"), "top 2 [2] 1: 3 4 0 1 2: 5 6 7 2");
  EXPECT_EQ(table_told(whole + "2,7\n"), one);
  EXPECT_EQ(table_told(whole), one);
  EXPECT_EQ(table_told("layer,expert\n1,3\n1,4\n2,5\n1,0\n1,1\n2,7\n2,2\n"),
            "error: has 1 row of layer 2 in a row: no tokens of 2 choices\n");
}

TEST(FactsOfTables, MustAgreeWithTheFlags) {
  const auto with = [](const std::string& fact) {
    return table_told(fact + "layer,token,expert\n1,0,0\n1,0,1\n2,0,0\n2,0,1\n");
  };
  EXPECT_EQ(with("# num_experts=8\n"), "top 2 [1] 1: 0 1 2: 0 1");
  EXPECT_EQ(with("# top_k=2\n"), "top 2 [1] 1: 0 1 2: 0 1");
  EXPECT_THAT(with("# num_experts=1\n"), testing::StartsWith("error: has 1 expert"));
  EXPECT_THAT(with("# top_k=1\n"), testing::StartsWith("error: "));
}

TEST(RowsOfTables, OfSeveralListsAreTokensOrLayers) {
  const auto of = [](const std::string& rows) { return told_of("table", {{"a.jsonl", rows}}); };
  EXPECT_EQ(of(R"({"token": 0, "topk_ids": [[0, 1], [2, 3]]})"), "top 2 [1] 1: 0 1 2: 2 3");
  EXPECT_THAT(of(R"({"token": 0, "topk_ids": [[0, 1], [2, 3], [4, 5]]})"),
              testing::StartsWith("error: does not say its layer\n"));
  EXPECT_EQ(of(R"({"layer": 1, "token": 5, "topk_ids": [[0, 1], [2, 3]]}
{"layer": 2, "token": 5, "topk_ids": [[4, 5], [6, 7]]})"),
            "top 2 [2] 1: 0 1 2 3 2: 4 5 6 7");
}

TEST(RowsOfTables, HaveLayersFromZeroToAHundredThousand) {
  const auto of = [](const std::string& layer) {
    return told_of("table", {{"a.csv", "layer,token,experts\n" + layer + ",0,[3 4]\n"}},
                   [](ImportOptions& options) { options.moe_layers = {}; });
  };
  EXPECT_EQ(of("0"), "top 2 [1] 0: 3 4");
  EXPECT_EQ(of("100000"), "top 2 [1] 100000: 3 4");
  EXPECT_THAT(of("100001"), testing::StartsWith("error: has layer 100001\n"));
}

TEST(RowsOfTables, OfOtherLayersAreLeftOut) {
  EXPECT_EQ(table_told("layer,token,expert\n1,0,3\n1,0,4\n2,0,5\n2,0,6\n", 2, {2}),
            "top 2 [1] 2: 5 6\n2 rows: of layers that --layers does not name\n");
}

TEST(RowsOfTables, HaveWeightsFromZeroUpOrNone) {
  const auto weights = [](const char* second) {
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a.csv",
                fmt::format("layer,token,expert,weight\n1,0,3,0\n1,0,4,{}\n", second));
    auto options = options_of(scratch / "in", scratch / "out");
    options.layers = {1};
    const std::string report = import_trace("table", options).report;
    return report.find("weights    yes") != std::string::npos;
  };
  EXPECT_TRUE(weights("0.5"));
  EXPECT_FALSE(weights("-0.5"));
  EXPECT_FALSE(weights("x"));
}

/// Of requests by rank; 0 and 1 have routes of the last layer only, which are the same.
TEST(FilesOfTables, OfALayerEachAreOfTheSameRequests) {
  const std::string head = "rank,layer,token,expert\n";
  EXPECT_EQ(told_of("table",
                    {{"a.csv", head + "7,1,0,3\n"},
                     {"b.csv", head + "7,2,0,4\n"},
                     {"c.csv", head + "7,3,0,5\n0,3,0,6\n1,3,0,6\n"}},
                    [](ImportOptions& options) { options.top_k = 1, options.moe_layers = {}; }),
            "top 1 [1] 1: 3 2: 4 3: 5 rank 7\n2 rows: of tokens that lack layers\n");
}

TEST(FilesOfTables, ThatRepeatARequestAreTakenOnce) {
  const auto of = [](const std::string& second) {
    return told_of("table", {{"a.csv", "layer,token,expert\n1,0,3\n1,1,4\n"}, {"b.csv", second}},
                   [](ImportOptions& options) { options.top_k = 1, options.layers = {1}; });
  };
  EXPECT_EQ(
      of("layer,token,expert\n1,0,3\n1,1,4\n"),
      "top 1 [2] 1: 3 4\n2 rows: of ranks that repeat another's tokens (tensor parallelism)\n");
  EXPECT_EQ(of("layer,token,expert\n1,0,3\n1,1,5\n"), "top 1 [2, 2] 1: 3 4 3 5");
  EXPECT_EQ(of("step,layer,token,expert\n0,1,0,3\n0,1,1,4\n"),
            of("layer,token,expert\n1,0,3\n1,1,4\n"));
}

TEST(FilesOfCounts, NameTheirRank) {
  const auto rank_of = [](const std::string& name) {
    const std::string text =
        told_of("table", {{name, "layer,expert,count\n1,0,1\n1,1,1\n2,2,1\n2,3,1\n"}});
    return replace_all(text, "top 2 [1] 1: 0 1 2: 2 3", "");
  };
  for (const char* const name : {"c_rank0.csv", "c_rank_1.csv", "rank10_c.csv"}) {
    EXPECT_EQ(rank_of(name), " rank 0") << name;  // of one source
  }
  for (const char* const name : {"c.csv", "c_0.csv", "c_rank__1.csv", "c_rank.csv"}) {
    EXPECT_EQ(rank_of(name), "") << name;
  }
}

TEST(FilesOfCounts, OfTheSameRankAreStepsInOrderOfTime) {
  const auto one = [](int expert) {
    return fmt::format("layer_id,expert_id,count\n1,{0},1\n1,{1},1\n2,{0},1\n2,{1},1\n", expert,
                       expert + 1);
  };
  const auto in = [](int rank, const std::string& when) {
    return fmt::format("expert_distribution_rank{}_timestamp{}.csv", rank, when);
  };
  EXPECT_EQ(told_of("sglang-counts", {{in(0, "9.5"), one(0)},
                                      {in(1, "9.25"), one(2)},
                                      {in(0, "10"), one(4)},
                                      {in(1, "10.5"), one(6)}}),
            "top 2 [1, 1] 1: 0 1 2 3 2: 0 1 2 3 rank 0"
            " step 1 [1, 1] 1: 4 5 6 7 2: 4 5 6 7 rank 0");
  EXPECT_EQ(told_of("table",
                    {{"a.csv", "rank,layer,expert,count\n3,1,0,1\n3,1,1,1\n"},
                     {"b.csv", "rank,layer,expert,count\n3,2,2,1\n3,2,3,1\n"},
                     {"c.csv", "rank,layer,expert,count\n3,1,4,2\n3,2,5,2\n"}},
                    [](ImportOptions& options) { options.top_k = 1; }),
            "top 1 [2] 1: 0 1 2: 2 3 rank 0 step 1 [2] 1: 4 4 2: 5 5 rank 0")
      << "files of other layers are of one step";
}

/// A pass of SGLang's recorder: what ranks counted in the 8 slots of one layer.
std::string recorded(const std::vector<std::string>& of_rank, int experts = 8) {
  std::string records;
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    records +=
        fmt::format(R"({}{{"forward_pass_id": 2, "rank": {}, "global_physical_count": [[{}]]}})",
                    r == 0 ? "" : ", ", r, of_rank[r]);
  }
  return told_of(
      "sglang-counts",
      {{"a.json", fmt::format(R"({{"records": [{}], "last_physical_to_logical_map": )"
                              R"([[0, 1, 2, 3, 4, 5, 6, 7]]}})",
                              records)}},
      [&](ImportOptions& o) { o.moe_layers = {0}, o.model_layers = 1, o.experts = experts; });
}

TEST(CountsOfRanks, InTheirOwnSlotsAreOfAnyonesTokens) {
  const std::string left = "0,0,1,1,0,0,0,0", right = "0,0,0,0,1,0,0,1";
  EXPECT_EQ(recorded({left, right}), "top 2 step 2 [1, 1] 0: 2 4 3 7");
  EXPECT_EQ(recorded({left, right}, 0), recorded({left, right})) << "experts by the map";
  EXPECT_EQ(recorded({left}), "top 2 step 2 [1] 0: 2 3 rank 0");
  EXPECT_EQ(recorded({left, "0,0,0,1,1,0,0,0"}), "top 2 step 2 [1, 1] 0: 2 3 3 4 rank 0");
  EXPECT_EQ(recorded({"1,0,0,0,1,0,0,0", right}), "top 2 step 2 [1, 1] 0: 0 4 4 7 rank 0");
  EXPECT_EQ(recorded({right, left}), "top 2 step 2 [1, 1] 0: 4 7 2 3 rank 0");
}

TEST(ResponsesOfVllm, ContinueFromTheirPrompt) {
  const std::string prompt = "[[[0, 1], [2, 3]]]", more = "[[[4, 5], [6, 7]]]";
  const std::string none = R"({"data": "", "shape": [0, 3, 2]})";
  const auto response = [](const std::string& before, const std::string& choices) {
    return told_of("vllm-routes",
                   {{"a.json", fmt::format(R"({{"prompt_routed_experts": {}, "choices": [{}]}})",
                                           before, choices)}});
  };
  const auto choice_of = [](const std::string& routes) {
    return fmt::format(R"({{"routed_experts": {}}})", routes);
  };
  EXPECT_EQ(response(prompt, ""), "top 2 [1] 1: 0 1 2: 2 3");
  EXPECT_EQ(response(prompt, choice_of(more)), "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7");
  EXPECT_EQ(response(prompt, "{}, " + choice_of(more)), "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7");
  EXPECT_EQ(response(prompt, choice_of(more) + ", " + choice_of(more)),
            "top 2 [2, 1] 1: 0 1 4 5 4 5 2: 2 3 6 7 6 7");
  EXPECT_EQ(response(prompt, choice_of(none)), "top 2 [1] 1: 0 1 2: 2 3");
  EXPECT_EQ(response(none, choice_of(more)), "top 2 [1] 1: 4 5 2: 6 7");
  for (const char* const other : {"[[[4, 5]]]", "[[[4], [5]]]"}) {
    EXPECT_THAT(response(prompt, choice_of(other)), HasSubstr("of the prompt but")) << other;
  }
}

TEST(LayersOfFlame, NeedScoresEverywhereForWeights) {
  const ScratchFolder scratch;
  const std::string flame = formats() + "/flame/layer_0";
  write_bytes(scratch / "in/layer_02.parquet",
              replace_all(read_bytes(flame + "2.parquet"), "scores", "others"));
  write_bytes(scratch / "in/layer_03.parquet", read_bytes(flame + "3.parquet"));
  const auto report = import_trace("flame", options_of(scratch / "in", scratch / "out")).report;
  EXPECT_THAT(report, HasSubstr("tokens     9\n"));
  EXPECT_THAT(report, HasSubstr("layers     2 (model layers 1, 2)\n"));
  EXPECT_THAT(report, HasSubstr("weights    no\n"));
}

/// One microbatch of 5 tokens in two layers, by the names of its files and of the folders.
class CapturesOfFlame : public testing::Test {
 protected:
  std::string step_of(const std::string& name, const char* first = "2", const char* second = "3",
                      const std::string& numbering = "") {
    fs::remove_all(scratch_.path());
    const std::string from = formats() + "/flame-captures/1080/";
    write_bytes(scratch_ / ("in/" + std::string(first) + "/" + name),
                read_bytes(from + "2/0-0.pt"));
    write_bytes(scratch_ / ("in/" + std::string(second) + "/" + name),
                read_bytes(from + "3/0-0.pt"));
    write_bytes(scratch_ / ("in/" + std::string(first) + "/notes.txt"), "x");
    write_bytes(scratch_ / ("in/" + std::string(second) + "/7-7.pt/notes.txt"), "x");
    write_bytes(scratch_ / "in/notes/1-1.pt", "x");
    write_bytes(scratch_ / "in/4", "x");
    auto options = options_of(scratch_ / "in", scratch_ / "out");
    options.numbering = numbering;
    options.moe_layers = {};
    std::string text;
    const std::string error = error_of([&] {
      const Imported imported = import_trace("flame", options);
      const RoutingTrace trace = RoutingTrace::open(options.output);
      const TraceStep& step = trace.step(0);
      text = fmt::format("step {} rank {} of {} tokens: {}", step.number(),
                         step.has_source_ranks() ? step.source_rank(0) : -1, step.tokens(),
                         imported.warnings.empty()
                             ? fmt::format("layers {}", fmt::join(trace.info().layers, ", "))
                             : imported.warnings.front().message);
    });
    return error.empty() ? text : error.substr(error.find("error: "));
  }
  ScratchFolder scratch_;
};

TEST_F(CapturesOfFlame, NameTheirMicrobatchAndRank) {
  const std::string from_one =
      " of 5 tokens: its layers 2, 3 are counted from 1: layers 1, 2 of the model";
  EXPECT_EQ(step_of("4-6.pt"), "step 4 rank 6" + from_one);
  EXPECT_EQ(step_of("4-1048575.pt"), "step 4 rank 1048575" + from_one);
  EXPECT_EQ(step_of("4-1048576.pt"), "step 4 rank -1" + from_one);
  for (const char* const name : {"4.pt", "4-.pt", "-6.pt", "x-6.pt", "4-6x.pt", "4--6.pt"}) {
    EXPECT_EQ(step_of(name), "step 0 rank -1" + from_one) << name;
  }
  EXPECT_EQ(step_of("0-0.pt", "2", "3", "from-0"), "step 0 rank 0 of 5 tokens: layers 2, 3");
  EXPECT_EQ(step_of("0-0.pt", "0", "1", "from-0"), "step 0 rank 0 of 5 tokens: layers 0, 1");
  EXPECT_EQ(step_of("0-0.pt", "0", "1"),
            "error: has a folder of layer 0, and folders count from 1\n"
            "hint: --numbering from-0 says otherwise\n");
}

}  // namespace
}  // namespace moesim
