// SPDX-License-Identifier: Apache-2.0
// Cells of CSV, by whatever separator.
#include "sim/base/delimited.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(Delimited, TheSeparatorIsTheMostFrequentOne) {
  EXPECT_EQ(separator_of("a;b,c;d"), ';');
  EXPECT_EQ(separator_of("a,b;c"), ',') << "of two the first in the list";
  EXPECT_EQ(separator_of("a|b"), '|');
  EXPECT_EQ(separator_of("a\tb"), '\t');
  EXPECT_EQ(separator_of(",a"), ',');
  EXPECT_EQ(separator_of("a b"), '\0');
  EXPECT_EQ(separator_of(""), '\0');
}

TEST(Delimited, QuotesAndBracketsHideSeparators) {
  EXPECT_EQ(separator_of("\"a,b,c\";d"), ';');
  EXPECT_EQ(separator_of("[1,2,3];d"), ';');
  EXPECT_EQ(separator_of("(1,2,(3,4));d"), ';');
  EXPECT_EQ(separator_of("a);b,c,d"), ',') << "a bracket that nothing opened";
}

TEST(Delimited, CellsAreWholeAndWithoutBlanks) {
  EXPECT_THAT(cells_of(" a ,[1, 2],\t\"b, c\" ", ','), ElementsAre("a", "[1, 2]", "b, c"));
  EXPECT_THAT(cells_of(",a,", ','), ElementsAre("", "a", ""));
  EXPECT_THAT(cells_of("a,bc,d", ','), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(cells_of("a, b", '\0'), ElementsAre("a, b"));
}

TEST(Delimited, DoubledQuotesAreOne) {
  EXPECT_THAT(cells_of(R"("a ""b"" c","""")", ','), ElementsAre("a \"b\" c", "\""));
  EXPECT_THAT(cells_of(R"("",x)", ','), ElementsAre("", "x"));
  EXPECT_THAT(cells_of(R"("a"b,c"d")", ','), ElementsAre("\"a\"b", "c\"d\""));
}

TEST(Delimited, BlanksCountOnce) {
  EXPECT_THAT(cells_of("  a \t b  c ", ' '), ElementsAre("a", "b", "c"));
}

}  // namespace
}  // namespace moesim
