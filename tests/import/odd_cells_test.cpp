// SPDX-License-Identifier: Apache-2.0
// Cells and fields that are easily taken for something else: long ids, columns of one name, large
// and odd counts, lines that are cut.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string cells_told(const std::string& text, int top_k = 2) {
  return told_of("table", {{"a", text}},
                 [&](ImportOptions& o) { o.layers = {1}, o.top_k = top_k; });
}

TEST(OddCells, AreIdsOfRequestsAsTheyAreWritten) {
  const std::string two = "top 1 [1, 1] 1: 3 4";
  EXPECT_EQ(cells_told(R"({"rid": 9007199254740993, "layer": 1, "token": 0, "expert": 3}
                          {"rid": 9007199254740992, "layer": 1, "token": 1, "expert": 4})",
                       1),
            two);
  EXPECT_EQ(cells_told("rid,layer,token,expert\n0012,1,0,3\n12,1,1,4\n", 1), two);
  EXPECT_EQ(cells_told("rid,layer,token,expert\n12,1,0,3\n12,1,1,4\n", 1), "top 1 [2] 1: 3 4");
}

TEST(OddCells, AreNotOfTwoColumnsWithOneName) {
  EXPECT_EQ(cells_told("token,layer,topk_ids,topk_ids\n0,1,\"[3, 4]\",\"[0, 1]\"\n"),
            "error: has two columns 'topk_ids'\nhint: rename one\n");
  EXPECT_EQ(cells_told("token,layer,topk_ids,x,x\n0,1,\"[3, 4]\",1,2\n"), "top 2 [1] 1: 3 4");
}

TEST(OddCells, MayBeIdsInQuotes) {
  EXPECT_EQ(cells_told(R"({"layer": "1", "token": "0", "topk_ids": ["3", "4"]})"),
            "top 2 [1] 1: 3 4");
  EXPECT_THAT(cells_told(R"({"layer": 1, "token": 0, "topk_ids": ["3", "x"]})"),
              HasSubstr("none is known to hold expert ids"));
}

TEST(OddCells, OfCountsAreRefusedByTheirValue) {
  const auto counted = [](const std::string& count) {
    return cells_told("layer,expert,count\n1,0," + count + "\n");
  };
  EXPECT_THAT(counted("99999999999999999"),
              StartsWith("error: field 'count' holds a count of 1e+17; at most 1099511627776"));
  EXPECT_EQ(counted("\"1,000\""),
            "error: field 'count' holds '1,000', not one number\nhint: write 1000, not 1,000\n");
  EXPECT_THAT(counted("1099511627776\n1,0,1"),
              StartsWith("error: counts an expert 1099511627777 times; at most 1099511627776"));
  EXPECT_THAT(cells_told(R"({"layer": 1, "tokens_per_expert": [0.5, 0, 0, 0, 0, 0, 0, 0.5]})"),
              StartsWith("error: field 'tokens_per_expert' holds 8 numbers, first 0.5, not whole"));
}

TEST(OddCells, OfALineThatIsCutAreReported) {
  const std::string dropped = "top 2 [1] 1: 3 4\n1 row: of a line that is cut short\n";
  EXPECT_EQ(cells_told("layer,token,expert\n1,0,3\n1,0,4\n1,1"), dropped);
  EXPECT_EQ(cells_told("{\"layer\": 1, \"token\": 0, \"topk_ids\": [3, 4]}\n{\"layer\": 1, \"tok"),
            dropped);
}

TEST(OddCells, OfRanksThatRepeatAreReportedAfterOtherWarnings) {
  std::string rows = "rank,layer,expert,n\n";
  for (int row = 0; row < 16; ++row) rows += fmt::format("{},1,{},2\n", row / 8, row % 8);
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.csv", rows);
  auto options = options_of(scratch / "in", scratch / "out");
  options.layers = {1};
  const Imported imported = import_trace("table", options);
  ASSERT_EQ(imported.warnings.size(), 2U);
  EXPECT_THAT(imported.warnings[0].message, HasSubstr("'n' is taken for counts"));
  EXPECT_THAT(imported.warnings[1].message, HasSubstr("ranks 0 and 1 have the same counts"));
}

}  // namespace
}  // namespace moesim
