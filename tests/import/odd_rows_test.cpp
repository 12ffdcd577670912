// SPDX-License-Identifier: Apache-2.0
// Logs and tables of a few rows: prefixes of lines, headers far down, counts of other layers, and
// requests that are not of interest.
#include <gmock/gmock.h>

#include "sim/trace/npy.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A table, by name of its file.
std::string rows_told(const std::string& rows, std::vector<int> layers = {}, int top_k = 2) {
  return told_of("table", {{"a", rows}}, [&](ImportOptions& options) {
    options.layers = std::move(layers), options.top_k = top_k;
  });
}

TEST(LinesOfLogs, MayHaveTagsAndSeveralLists) {
  EXPECT_EQ(rows_told("[INFO] layer 1 token 4 experts [3, 4]\n"
                      "[INFO] layer 1 token 5 experts [5, 6]\n",
                      {1}),
            "top 2 [2] 1: 3 4 5 6");
  // Tokens come after a second list: of the same pass unless one comes again.
  EXPECT_EQ(rows_told("layer 1 [3, 4] expert [7] token 0\nlayer 1 [5, 6] expert [7] token 1\n"
                      "layer 1 [1, 2] expert [7] token 0\nlayer 1 [3, 0] expert [7] token 1\n",
                      {1}),
            "top 2 [2, 2] 1: 3 4 5 6 1 2 3 0");
}

TEST(RowsOfTables, WithNegativeWeightsAreReported) {
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.csv", "layer,token,expert,weight\n1,0,3,0.5\n1,0,4,-0.3\n");
  auto options = options_of(scratch / "in", scratch / "out");
  options.layers = {1}, options.top_k = 2;
  const Imported imported = import_trace("table", options);
  ASSERT_EQ(imported.warnings.size(), 1U);
  EXPECT_EQ(imported.warnings[0].line, 3);
  EXPECT_THAT(imported.warnings[0].message, HasSubstr("has weight -0.3: the weights"));
}

TEST(RowsOfTables, WithSlotsComeInAnyOrder) {
  const std::string header = "layer,token,slot,expert,weight\n";
  const std::vector<std::string> rows = {"1,0,0,3,.1", "1,0,1,4,.2", "1,1,0,5,.3", "1,1,1,6,.4"};
  const auto text = [&](const std::vector<std::size_t>& order) {
    std::string all = header;
    for (const std::size_t row : order) all += rows[row] + "\n";
    return all;
  };
  const std::string sorted = "top 2 [2] 1: 3 4 5 6";
  EXPECT_EQ(rows_told(text({0, 1, 2, 3}), {1}), sorted);
  EXPECT_EQ(rows_told(text({0, 2, 1, 3}), {1}), sorted) << "melted";
  EXPECT_EQ(rows_told(text({1, 0, 3, 2}), {1}), sorted);
  EXPECT_EQ(rows_told(text({0, 3, 2, 1}), {1}), sorted) << "shuffled";
  EXPECT_EQ(rows_told(text({0, 2, 1, 3}), {1}, 0), sorted) << "slots say how many choices";
  EXPECT_EQ(rows_told(text({0, 1, 2, 3, 0, 1, 2, 3}), {1}), "top 2 [2, 2] 1: 3 4 5 6 3 4 5 6")
      << "two passes";
  EXPECT_THAT(rows_told(text({0, 2, 3}), {1}),
              StartsWith("error: token 0 of layer 1 has 1 of 2 choices\n"));
}

TEST(RowsOfTables, WithFewerWeightsThanIdsAreReported) {
  const ScratchFolder scratch;
  const std::string first = R"({"layer": 1, "token": 0, "topk_ids": [2, 4], )";
  for (const char* const weights :
       {R"("topk_weights": [0.6]})", R"("topk_weights": [0.6, 0.3, 0.1]})"}) {
    std::filesystem::remove_all(scratch / "out");
    write_bytes(scratch / "in/a.jsonl", first + weights);
    auto options = options_of(scratch / "in", scratch / "out");
    options.layers = {1}, options.top_k = 2;
    const Imported imported = import_trace("table", options);
    ASSERT_EQ(imported.warnings.size(), 1U) << weights;
    EXPECT_EQ(imported.warnings[0].line, 1);
    EXPECT_THAT(imported.warnings[0].message,
                HasSubstr("for 2 expert ids: the weights of its request are left out"));
  }
}

TEST(HeadersOfTables, AreAmongTheFirstHundredLines) {
  const auto after = [](int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "words of the program\n";
    return rows_told(text + "layer,token,expert\n1,0,3\n1,0,4\n", {1});
  };
  EXPECT_EQ(after(99), "top 2 [1] 1: 3 4");
  EXPECT_THAT(after(100), HasSubstr("none is known to hold expert ids"));
  EXPECT_EQ(told_of("table", {{"a.csv", "1,3\n1,4\n"}},
                    [](ImportOptions& o) {
                      o.map = {"layer=1", "experts=2"};
                      o.layers = {1};
                    }),
            "top 2 [1] 1: 3 4")
      << "two columns without a header";
}

TEST(CountsOfTables, AreOfTheLayersThatTheyName) {
  const auto of_model = [](const std::string& rows) {
    return told_of("table", {{"a.csv", rows}}, [](ImportOptions& o) { o.moe_layers = {2}; });
  };
  const std::string rows = "layer,expert,count\n2,0,1\n2,1,1\n";
  EXPECT_EQ(of_model(rows), "top 2 [1] 2: 0 1");
  EXPECT_EQ(of_model("expert,count\n0,1\n1,1\n"), "top 2 [1] 2: 0 1") << "the only one";
  EXPECT_THAT(of_model(rows + "1,2,1\n1,3,1\n"),
              StartsWith("error: layer 1 is dense in the model but token 0 chose expert 2\n"));
}

TEST(CountsOfTables, AreOfTheModelsExperts) {
  const auto expert = [](const std::string& id) {
    return rows_told("layer,expert,count\n1,0,1\n1," + id + ",1\n", {1});
  };
  EXPECT_EQ(expert("7"), "top 2 [1] 1: 0 7");
  EXPECT_THAT(expert("8"), StartsWith("error: layer 1: counts expert 8 of a model with 8 experts"));
  EXPECT_THAT(expert("-1"), StartsWith("error: layer 1: counts expert -1 of a model with 8"));
}

TEST(CountsOfTables, WithoutAStepOrARankAreOfTheFirst) {
  const std::string of_both = R"({"step": 4, "rank": 0, "layer": 1, "expert": 0, "count": 1})";
  EXPECT_EQ(rows_told(of_both + R"( {"step": 4, "layer": 1, "expert": 1, "count": 1})", {1}),
            "top 2 [1] 1: 0 1 rank 0");
  const std::string first = R"({"step": 0, "rank": 3, "layer": 1, "expert": 0, "count": 1})";
  EXPECT_EQ(rows_told(first + R"( {"rank": 3, "layer": 1, "expert": 1, "count": 1})", {1}),
            "top 2 [1] 1: 0 1 rank 0");
}

TEST(RowsOfTables, MayLackTheirLastCellIfTheyAreTheLast) {
  const std::string whole = "layer_id,expert_id,count\n1,0,4\n1,1,4\n2,2,4\n";
  EXPECT_THAT(told_of("table", {{"a.csv", whole + "2,3,4\n2,5,\n"}}),
              HasSubstr("1 row: of a line that is cut"));
  EXPECT_THAT(told_of("table", {{"a.csv", whole + "2,5,\n2,3,4\n"}}),
              StartsWith("error: holds choices of tokens and counts of experts"));
}

TEST(CountsOfTables, ThatDoNotAddUpAreOfTheFileThatIsCut) {
  EXPECT_THAT(
      told_of("table", {{"a.csv", "layer_id,expert_id,count\n1,0,4\n1,1,4\n2,2,4\n2,5,\n"},
                        {"b.csv", "layer_id,expert_id,count\n1,0,4\n1,1,4\n2,2,4\n2,5,4\n"}}),
      StartsWith("error: its last line is cut short, and its counts do not add up: "));
}

TEST(RowsOfTables, OfDenseLayersHaveEmptyLists) {
  const std::string rows =
      "{\"token\": 0, \"layer\": 1, \"topk_ids\": [3, 4]}\n"
      "{\"token\": 0, \"layer\": 2, \"topk_ids\": [5, 6]}\n";
  EXPECT_THAT(
      told_of("table", {{"a.jsonl", rows + "{\"token\": 0, \"layer\": 0, \"topk_ids\": []}\n"}}),
      StartsWith("top 2 [1] 1: 3 4 2: 5 6\n1 row: of layers without chosen experts"));
}

TEST(RowsOfTables, MayHavePrintedTensors) {
  EXPECT_EQ(rows_told("{\"token\": 0, \"layer\": 1, \"topk_ids\": "
                      "\"tensor([3, 4], device='cuda:0', dtype=torch.int32)\"}\n",
                      {1}),
            "top 2 [1] 1: 3 4");
}

TEST(RowsOfTables, MayBeOfTheLayerOfTheirFile) {
  EXPECT_EQ(told_of("table", {{"router_layer_1.csv", "token,expert_0,expert_1\n0,3,4\n"},
                              {"router_layer_2.csv", "token,expert_0,expert_1\n0,5,6\n"}}),
            "top 2 [1] 1: 3 4 2: 5 6");
  EXPECT_EQ(told_of("table", {{"layer_01.csv", "token,expert_0,expert_1\n0,3,4\n"},
                              {"layer_02.csv", "token,expert_0,expert_1\n0,5,6\n"}}),
            "top 2 [1] 1: 3 4 2: 5 6");
}

TEST(RequestsOfTables, OfOtherLayersLackNothing) {
  EXPECT_EQ(rows_told("request,layer,token,expert\na,1,0,3\na,1,0,4\nb,2,0,5\nb,2,0,6\n", {2}),
            "top 2 [1] 2: 5 6\n2 rows: of layers that --layers does not name\n");
  EXPECT_THAT(rows_told(R"({"layer": 1, "token": 0, "topk_ids": [[1, 2], [3]]})", {1}),
              StartsWith("error: has expert ids in lists of different lengths\n"));
}

TEST(RowsOfVllm, AreToldByTheFirstFourItems) {
  const auto after = [](int items) {
    std::string text;
    for (int i = 0; i < items; ++i) text += "{\"note\": 1}\n";
    return told_of("vllm-routes",
                   {{"a.jsonl", text + R"({"layer": 1, "token": 0, "topk_ids": [3, 4]})"}},
                   [](ImportOptions& options) { options.layers = {1}; });
  };
  EXPECT_EQ(after(3), "top 2 [1] 1: 3 4");
  EXPECT_THAT(after(4), StartsWith("error: none of its 5 responses has routed_experts; "));
}

TEST(RequestsOfGptOss, AreInTheFileOrInOneItem) {
  const std::string routes =
      R"("router_data": [{"token_0": {"layer_0": {"selected_experts": [3, 4], )"
      R"("selected_probs": [1, 0]}}}])";
  const auto of = [](const std::string& text) {
    return told_of("gpt-oss", {{"a.json", text}},
                   [](ImportOptions& options) { options.moe_layers = {}; });
  };
  const std::string one = "top 2 [1] 0: 3 4";
  EXPECT_EQ(of("{" + routes + "}"), one);
  EXPECT_EQ(of("{\"a\": 1, \"response\": {" + routes + "}}"), one);
  EXPECT_EQ(of("{\"a\": [3], " + routes + ", \"b\": [4]}"), one) << "other lists";
  EXPECT_THAT(of("{\"a\": {\"b\": {" + routes + "}}}"), StartsWith("error: has no router_data\n"));
  const auto named = [&](const std::string& token, const std::string& layer) {
    return of(replace_all(replace_all("{" + routes + "}", "token_0", token), "layer_0", layer));
  };
  EXPECT_EQ(named("token_1099511627776", "layer_100000"), "top 2 [1] 100000: 3 4");
  EXPECT_EQ(named("token_1099511627777", "layer_0"),
            "error: router_data: 'token_1099511627777' is not a token\n");
  EXPECT_EQ(named("token_0", "layer_100001"),
            "error: router_data: 'layer_100001' is not a layer\n");
}

TEST(RequestsOfGptOss, MayLackTokensOrTopK) {
  const auto of = [](const std::string& requests, int top_k) {
    return told_of("gpt-oss", {{"a.json", "{\"router_data\": [" + requests + "]}"}},
                   [&](ImportOptions& o) { o.moe_layers = {}, o.top_k = top_k; });
  };
  const std::string token =
      R"({"token_3": {"layer_1": {"selected_experts": [3, 4], "selected_probs": [1, 0]}}})";
  EXPECT_EQ(of("", 2), "error: has a request without tokens\n");
  EXPECT_EQ(of(token, 0), "top 2 [1] 1: 3 4");
  EXPECT_EQ(of(token, 1), "error: has 2 experts per token but top-k is 1\n");
}

TEST(SlotsOfSglang, TellTheExpertsWhereverTheLargestIs) {
  const auto of_map = [](const std::string& map) {
    return told_of("sglang-counts",
                   {{"a.json", R"({"records": [{"forward_pass_id": 0, "rank": 0, )"
                               R"("global_physical_count": [[1, 1, 0, 0]]}], )"
                               R"("last_physical_to_logical_map": [[)" +
                                   map + "]]}"}},
                   [](ImportOptions& o) { o.experts = 0, o.moe_layers = {0}, o.model_layers = 1; });
  };
  EXPECT_EQ(of_map("3, 2, 1, 0"), "top 2 [1] 0: 2 3 rank 0");
  EXPECT_EQ(of_map("0, 1, 2, 3"), "top 2 [1] 0: 0 1 rank 0");
}

TEST(SlotsOfSglang, MayBeFewerThanRanks) {
  const auto counted_by = [](const std::string& records) {
    return told_of("sglang-counts",
                   {{"a.json", R"({"records": [)" + records +
                                   R"(], "last_physical_to_logical_map": [[0, 1]]})"}},
                   [](ImportOptions& o) {
                     o.experts = 2, o.top_k = 1, o.moe_layers = {0}, o.model_layers = 1;
                   });
  };
  const auto record = [](int rank, const std::string& counts) {
    return fmt::format(R"({{"forward_pass_id": 3, "rank": {}, "global_physical_count": [[{}]]}})",
                       rank, counts);
  };
  EXPECT_EQ(counted_by(record(0, "1, 0") + ", " + record(1, "0, 2") + ", " + record(2, "1, 0")),
            "top 1 step 3 [1, 2, 1] 0: 0 1 1 0 rank 0");
  EXPECT_EQ(counted_by(record(0, "1, 0") + ", " + record(1, "0, 2")),
            "top 1 step 3 [1, 1, 1] 0: 0 1 1")
      << "each in its own slot: what arrived there, of anyone's tokens";
  EXPECT_THAT(counted_by(record(0, "0, 0")), StartsWith("error: holds no tokens\n"));
}

TEST(SlotsOfSglang, AreCountedOnceAPassAndRank) {
  const auto recorded = [](int pass, int rank) {
    const std::string record =
        R"({"forward_pass_id": 3, "rank": 0, "global_physical_count": [[1]]})";
    return told_of(
        "sglang-counts",
        {{"a.json",
          R"({"records": [)" + record + ", " +
              fmt::format(
                  R"({{"forward_pass_id": {}, "rank": {}, "global_physical_count": [[2]]}})", pass,
                  rank) +
              R"(], "last_physical_to_logical_map": [[0]]})"}},
        [](ImportOptions& o) {
          o.experts = 1, o.top_k = 1, o.moe_layers = {0}, o.model_layers = 1;
        });
  };
  EXPECT_EQ(recorded(4, 0), "top 1 step 3 [1] 0: 0 rank 0 step 4 [2] 0: 0 0 rank 0");
  EXPECT_EQ(recorded(3, 1), "top 1 step 3 [1, 2] 0: 0 0 0 rank 0");
  EXPECT_EQ(recorded(3, 0),
            "error: pass 3 of rank 0 is recorded twice\n"
            "hint: give the files of one recording, each once\n");
}

TEST(RequestsOfTables, AreOfARankThatThereMayBe) {
  const auto of_rank = [](const std::string& rank) {
    return rows_told("rank,layer,token,expert\n" + rank + ",1,0,3\n" + rank + ",1,0,4\n", {1});
  };
  EXPECT_EQ(of_rank("0"), "top 2 [1] 1: 3 4 rank 0");
  EXPECT_EQ(of_rank("1048576"), "top 2 [1] 1: 3 4 rank 1048576");
  EXPECT_EQ(of_rank("-1"), "top 2 [1] 1: 3 4") << "none";
  for (const std::string rank : {"1048577", "4294967296", "-2"}) {
    EXPECT_THAT(of_rank(rank), StartsWith("error: has rank " + rank + "\n"));
  }
}

TEST(RequestsOfTables, AreOfStepsFromZeroOn) {
  const auto of_step = [](const std::string& step) {
    return rows_told("step,layer,token,expert\n" + step + ",1,0,3\n" + step + ",1,0,4\n", {1});
  };
  EXPECT_EQ(of_step("0"), "top 2 [1] 1: 3 4");
  EXPECT_EQ(of_step("-1"), "error: has step -1\nhint: --map step=FIELD names another field\n");
}

TEST(LinesOfEsft, AreText) {
  EXPECT_THAT(told_of("esft", {{"expert_weights_1.txt", "0\t1\t\t1\t\xff\n"}},
                      [](ImportOptions& options) { options.moe_layers = {}; }),
              HasSubstr("UTF-8"));
}

TEST(IterationsOfHarmoeny, ComeOnce) {
  const std::string row = "\"[1, 1, 0, 0, 0, 0, 0, 0]\"\n";
  EXPECT_EQ(told_of("harmoeny",
                    {{"data.json", R"({"num_experts": 8, "world_size": 1})"},
                     {"0/moe_layer-0.csv", "iteration,tokens,expert distribution\n3,2," + row +
                                               "4,2," + row + "3,2," + row}},
                    [](ImportOptions& options) { options.moe_layers = {5}; }),
            "error: has iteration 3 twice\n");
}

}  // namespace
}  // namespace moesim
