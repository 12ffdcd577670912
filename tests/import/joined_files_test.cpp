// SPDX-License-Identifier: Apache-2.0
// Files of one recording that do not fit each other, or that come twice.
#include <gmock/gmock.h>

#include "sim/import/input_hash.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A dump of SGLang: one pass of a rank with counts of two slots, and the experts of these.
std::string dump(int pass, int rank, const std::string& counts, const std::string& map) {
  return fmt::format(R"({{"records": [{{"forward_pass_id": {}, "rank": {}, )"
                     R"("global_physical_count": [[{}]]}}], )"
                     R"("last_physical_to_logical_map": [[{}]]}})",
                     pass, rank, counts, map);
}

TEST(DumpsOfSglang, HaveThePlacementOfTheirTime) {
  const auto of = [](const TextsByName& texts) {
    return told_of("sglang-counts", texts, [](ImportOptions& o) {
      o.experts = 2, o.top_k = 1, o.moe_layers = {0}, o.model_layers = 1;
    });
  };
  EXPECT_EQ(of({{"a.json", dump(3, 0, "2, 0", "0, 1")}, {"b.json", dump(4, 0, "1, 0", "1, 0")}}),
            "top 1 step 3 [2] 0: 0 0 rank 0 step 4 [1] 0: 1 rank 0");
  EXPECT_THAT(of({{"a.json", dump(3, 0, "2, 1", "0, 1")}, {"b.json", dump(3, 1, "1, 2", "1, 0")}}),
              StartsWith("error: pass 3 has another placement than in "));
  EXPECT_EQ(of({{"a.json", dump(3, 0, "2, 1", "0, 1")}, {"b.json", dump(3, 1, "1, 0", "0, 1")}}),
            "top 1 step 3 [3, 1] 0: 0 0 1 0 rank 0");
}

TEST(DumpsOfSglang, ReportWhatADraftModelChose) {
  EXPECT_THAT(told("sglang-recorder", formats() + "/sglang-recorder"),
              HasSubstr("rows: of a draft model\n"));
}

TEST(DumpsOfSglang, LeaveOutTheCountsOfADraftModel) {
  const std::string primary = dump(3, 0, "2, 0", "0, 1");
  std::string text = primary;
  text.insert(text.find("{\"forward_pass_id\""),
              R"({"forward_pass_id": 3, "gatherer_key": "draft", "rank": 0, )"
              R"("global_physical_count": [[1, 1]]}, )");
  EXPECT_EQ(told_of("sglang-counts", {{"a.json", text}},
                    [](ImportOptions& o) {
                      o.experts = 2, o.top_k = 1, o.moe_layers = {0}, o.model_layers = 1;
                    }),
            "top 1 step 3 [2] 0: 0 0 rank 0\n1 row: of a draft model\n");
}

TEST(LayersOfFlame, AreComparedInAnyOrder) {
  const std::string fixtures = std::string(MOESIM_ROOT) + "/tests/fixtures/";
  EXPECT_THAT(told_of("flame",
                      {{"layer_10.parquet", read_bytes(fixtures + "parquet/gzip.parquet")},
                       {"layer_2.parquet", read_bytes(fixtures + "flame/layer_02.parquet")}},
                      [](ImportOptions& o) { o.moe_layers = {}; }),
              HasSubstr("layer_2.parquet has 9"));
}

TEST(CapturesOfIterations, AreImportedOneByOne) {
  const std::string capture = read_bytes(formats() + "/flame-captures/1080/2/0-0.pt");
  const ScratchFolder scratch;
  auto options = options_of(scratch / "100", scratch / "out");
  for (const char* const iteration : {"100", "200"}) {
    write_bytes(scratch / (std::string(iteration) + "/2/0-0.pt"), capture);
  }
  options.inputs.push_back(scratch / "200");
  EXPECT_THAT(error_of([&] { import_trace("flame", options); }),
              HasSubstr("200/2/0-0.pt: error: is a second file of layer 2\n"
                        "hint: import one iteration at a time"));
}

TEST(CountsInFiles, AreInTheOrderOfTheirNumbers) {
  const auto of = [](const std::string& text) { return told_of("counts", {{"a.csv", text}}); };
  const std::string told = "top 2 [1, 1] 1: 0 1 0 1 2: 2 3 2 3";
  const std::string first = "2,2,0,0,0,0,0,0\n", second = "0,0,2,2,0,0,0,0\n";
  EXPECT_EQ(of("layer,a,b,c,d,e,f,g,h\n2," + second + "1," + first), told);
  EXPECT_EQ(of(",0,1,2,3,4,5,6,7\n0," + first + "1," + second), told) << "of pandas";
  EXPECT_EQ(of("layer,0,1,2,3,4,5,6,7\nlayer_2," + second + "layer_1," + first), told);
  EXPECT_THAT(of("layer,a,b,c,d,e,f,g,h\n1," + first + "1," + second),
              StartsWith("error: has two rows of layer 1\nhint: a file holds one step"));
  EXPECT_EQ(of("expert,a,b\n1,2,0\n0,2,0\n7,0,0\n6,0,0\n5,0,0\n4,0,0\n3,0,2\n2,0,2\n"), told);
  EXPECT_THAT(of("expert,a,b\n1,2,0\n0,2,0\n3,0,0\n"),
              StartsWith("error: has 3 experts, but not 0 to 2\n"));
}

TEST(CountsInFiles, AreOfSoManyExpertsAsCanBe) {
  std::string row = "[[[1";
  for (int e = 0; e < 70000; ++e) row += ",1";
  EXPECT_THAT(told_of("counts", {{"a.json", row + "]]]"}}, [](ImportOptions& o) { o.experts = 0; }),
              StartsWith("error: has counts of 70001 experts; at most "));
}

TEST(CountsInFiles, MayBeAMatrixPerLine) {
  const std::string matrix = "[[2, 2, 0, 0, 0, 0, 0, 0], [0, 0, 2, 2, 0, 0, 0, 0]]\n";
  EXPECT_EQ(told_of("counts", {{"a.jsonl", matrix + matrix}}),
            "top 2 [1, 1] 1: 0 1 0 1 2: 2 3 2 3 step 1 [1, 1] 1: 0 1 0 1 2: 2 3 2 3");
}

TEST(NumbersInNames, AreOfOneFileEach) {
  EXPECT_EQ(told_of("core12345", {{"a.json", R"([{"1": [[0, 1]], "01": [[2, 3]]}])"}}),
            "error: has layer 1 twice\n");
  const std::string rows =
      "iteration,tokens,expert distribution\n3,2,\"[1, 1, 0, 0, 0, 0, 0, 0]\"\n";
  EXPECT_EQ(told_of("harmoeny", {{"data.json", R"({"num_experts": 8, "world_size": 1})"},
                                 {"0/moe_layer-0.csv", rows},
                                 {"0/moe_layer-00.csv", rows}}),
            "error: is a second file of layer 0\n");
  EXPECT_EQ(rank_in_name("ranking_rank3.csv"), 3);
  EXPECT_EQ(rank_in_name("ranking.csv"), std::nullopt);
}

}  // namespace
}  // namespace moesim
