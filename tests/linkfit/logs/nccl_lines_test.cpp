// SPDX-License-Identifier: Apache-2.0
// Single lines of nccl-tests and NCCL.
#include "sim/linkfit/logs/nccl_lines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sim/base/error.h"
#include "sim/base/plain_line.h"
#include "sim/linkfit/logs/formats.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(LogLines, EndInAnyWay) {
  EXPECT_THAT(lines_of("a\rb\r\r\nc\n\nd"), ElementsAre("a", "b", "c", "", "d"));
  EXPECT_THAT(lines_of("a\r"), ElementsAre("a"));
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
}

TEST(PlainLine, HasNoEscapesAndTags) {
  EXPECT_EQ(plain_line("\x1b[1;31mred\x1b[0m \x1b=plain\x1b[?25"), "red plain");
  EXPECT_EQ(plain_line("a\xc2\xa0"
                       "b\rc"),
            "a b c");
  EXPECT_EQ(plain_line("[1,0]<stdout>:8 [1,12]<stderr>:9"), "  8   9");
  EXPECT_EQ(plain_line("[1,0]<stdout> 8"), "[1,0]<stdout> 8");
  EXPECT_EQ(plain_line("<stdout rank=\"0\">a &lt;b&gt; &amp;&#010;</stdout>"), "a <b> &");
  EXPECT_EQ(plain_line("<stdout rank=\"0\">a"), "<stdout rank=\"0\">a");
  EXPECT_EQ(plain_line("1,0]<stdout>:8"), "1,0]<stdout>:8");
}

TEST(RowLine, HasACountOfItsType) {
  const std::map<std::string, int> widths = {
      {"int8", 1},   {"uint8", 1},  {"char", 1},     {"fp8", 1},      {"fp8_e4m3", 1},
      {"f8e5m2", 1}, {"f8e4m3", 1}, {"fp8_e5m2", 1}, {"half", 2},     {"float16", 2},
      {"int", 4},    {"int32", 4},  {"uint32", 4},   {"bfloat16", 2}, {"float", 4},
      {"int64", 8},  {"uint64", 8}, {"double", 8},   {"float32", 4},  {"float64", 8}};
  for (const auto& [type, width] : widths) {
    const auto row = row_words(fmt::format("{} 5 {} sum 7 1.5 2", 5 * width, type), true);
    ASSERT_TRUE(row) << type;
    EXPECT_TRUE(row->whole_count) << type;
    EXPECT_EQ(row->size, std::to_string(5 * width));
    EXPECT_EQ(row->redop + row->root, "sum7");
    EXPECT_THAT(row->rest, ElementsAre("1.5", "2"));
  }
  EXPECT_FALSE(row_words("24 5 float sum -1 1", true)->whole_count);
  EXPECT_FALSE(row_words("22 5 float sum -1 1", true)->whole_count);
  EXPECT_EQ(row_words("(n1)24 6 float sum -1 1", true)->size, "24");
  EXPECT_FALSE(row_words("24 6 words sum -1 1", true));
  EXPECT_FALSE(row_words("24 x float sum -1 1", true));
  EXPECT_FALSE(row_words("n 6 float sum -1 1", true));
  EXPECT_FALSE(row_words("6 float sum -1 1", true));
}

TEST(RowLine, MayLackAnOperationAndARoot) {
  for (const char* const first : {"1.5", ".5", "-1", "N/A"}) {
    const auto row = row_words(fmt::format("8 2 float {} 3", first), false);
    EXPECT_EQ(row->redop + row->root, "") << first;
    EXPECT_THAT(row->rest, ElementsAre(first, "3"));
  }
  EXPECT_EQ(row_words("8 2 float", true)->redop, "");
  EXPECT_EQ(row_words("8 2 float sum", true)->root, "");
  EXPECT_TRUE(row_words("8 2 float sum", true)->rest.empty());
}

TEST(LibraryLine, NamesItsHost) {
  const auto host = [](const std::string& before) {
    return library_output(before + "NCCL INFO rank 0")->host;
  };
  EXPECT_EQ(host("n1:4000:4100 [0] "), "n1");
  EXPECT_EQ(host("(worker-0)n1:4000:4100 [0] "), "n1");
  EXPECT_EQ(host("n1:4000:4100 [0] /a/file.cc:12 "), "n1");
  EXPECT_EQ(host("n1:4000:4100 1 2 3 "), "n1");
  EXPECT_EQ(host("n1:4000:4100 1 2 3 4 "), "") << "too far";
  for (const char* const none :
       {"", "  ", "n1:4000 ", "n1:x:4100 ", ":4000:4100 ", "n1:4000: ", ":1 "}) {
    EXPECT_EQ(host(none), "") << none;
  }
  // After a row it may touch the last value.
  const std::string row = "8 2 float none ";
  EXPECT_EQ(host(row + "-1n1:4000:4100 "), "n1");
  EXPECT_EQ(host(row + "0n1:4000:4100 "), "n1");
  for (const char* const name : {"12", "10.0.0.1", "4-node"}) {
    EXPECT_EQ(host(row + name + ":4000:4100 "), name);
  }
}

TEST(LibraryLine, BeginsWhereItsProcessIsNamed) {
  const auto output = library_output("8 2 float none -1n1:40:41 [0] NCCL WARN rank 0");
  ASSERT_TRUE(output);
  EXPECT_EQ(output->at, std::string("8 2 float none -1").size());
  EXPECT_EQ(output->text, "NCCL WARN rank 0");
  EXPECT_FALSE(output->info);
  EXPECT_TRUE(library_output("n:1:2 NCCL INFO")->info);
  EXPECT_EQ(library_output("x NCCL TRACE")->at, 2U);
  EXPECT_EQ(library_output("x :1:2 NCCL INFO")->at, 7U) << "no host";
  EXPECT_FALSE(library_output("NCCL version 2.21"));
}

TEST(RankLines, TellRankGroupHostAndGpu) {
  const auto rank =
      rank_line("#  Rank 17 Group  2 Pid   4000 on   n1 device  3 [0000:10:00] NVIDIA H100 \r");
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 17);
  EXPECT_EQ(rank->group, 2);
  EXPECT_EQ(rank->host, "n1");
  EXPECT_EQ(rank->gpu, "NVIDIA H100");
  EXPECT_EQ(rank_line("#Rank 0 on n1 device 3")->group, 0);
  EXPECT_EQ(rank_line("#Rank 0 on n1 device 3")->gpu, "");
  EXPECT_TRUE(rank_line("Rank 16777216 on n1 device 3"));
  for (const char* const other :
       {"Rank 16777217 on n1 device 3", "Rank -1 on n1 device 3", "Rank 0 on n1 device x",
        "Rank 0 n1 device 3", "Rank x on n1 device 3", "Rank 0 device 3 on n1",
        "device 3 Rank 0 on n1 device"}) {
    EXPECT_FALSE(rank_line(other)) << other;
  }
}

TEST(ColumnsLine, BeginsWithTheSize) {
  EXPECT_THAT(columns_in("#   size count type"), ElementsAre("size", "count", "type"));
  EXPECT_THAT(columns_in("n1: #bytes N type"), ElementsAre("size", "N", "type"));
  EXPECT_THAT(columns_in("size count"), ElementsAre("size", "count"));
  EXPECT_TRUE(columns_in("# size type count").empty());
  EXPECT_TRUE(columns_in("# bytes count").empty());
  EXPECT_TRUE(columns_in("size").empty());
  EXPECT_TRUE(columns_in("").empty());
}

TEST(ProgramLine, HasACommandAndNoFile) {
  EXPECT_EQ(program_in("all_reduce_perf -b 8"), "all_reduce_perf");
  EXPECT_EQ(program_in("x_perf -b 8"), "x_perf");
  EXPECT_EQ(program_in("$ ./all_gather_perf -b 8"), "all_gather_perf");
  EXPECT_EQ(program_in("$ ./build/alltoall_perf_mpi"), "alltoall_perf_mpi");
  for (const char* const other : {"src/all_reduce_perf.cu", "all_reduce_perf/x", "perf", ""}) {
    EXPECT_EQ(program_in(other), "") << other;
  }
}

TEST(LinkShares, AreOfSizesThatALinkCarries) {
  const LinkShare share{"a.log", 0.5};
  EXPECT_EQ(share.bytes(0), Bytes(0));
  EXPECT_EQ(share.bytes(9), Bytes(4));
  EXPECT_EQ(share.bytes(std::exp2(54)), Bytes(std::int64_t{1} << 53));
  EXPECT_THROW(share.bytes(std::exp2(55)), Error);
  EXPECT_THROW(share.bytes(-2), Error);
}

TEST(LogWords, FollowTheirKey) {
  EXPECT_EQ(word_after("a key  word b", "key"), "word");
  EXPECT_EQ(word_after("key=7", "key="), "7");
  EXPECT_EQ(word_after("key ", "key"), "");
  EXPECT_EQ(word_after("a", "key"), "");
  EXPECT_TRUE(tells_of_an_end("Job was CANCELLED"));
  EXPECT_FALSE(tells_of_an_end("all is well"));
}

}  // namespace
}  // namespace moesim
