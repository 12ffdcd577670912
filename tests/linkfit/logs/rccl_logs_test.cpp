// SPDX-License-Identifier: Apache-2.0
// What rccl-tests write: tables with the algorithm (-M), CSV and JSON (-Z).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// Rows of an all-to-all of 16 GPUs at 40 GB/s, out of place and half as fast in place.
std::string rows_of(const std::string& cells, const std::string& before, const std::string& after) {
  std::string text;
  for (int k = 20; k < 26; ++k) {
    const long long size = 1LL << k;
    const double us = 20 + static_cast<double>(size) * 15 / 16 / 40e3;
    for (const int in_place : {0, 1}) {
      const double time = us * (1 + in_place), rate = static_cast<double>(size) / time / 1e3;
      text += before +
              fmt::format(fmt::runtime(cells), size, in_place, time, rate, rate * 15 / 16,
                          in_place == 1 ? "N/A" : "0") +
              after;
    }
  }
  return text;
}

const std::string header = "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,";
const std::string columns = "size,type,redop,inplace,time,algbw,busbw,#wrong\n";
const std::string cells = "{},float,none,{},{:.6g},{:.6g},{:.6g},{}";

std::string csv_of(const std::string& setting, const std::string& names = header) {
  return names + columns + rows_of(cells, "0,AlltoAll," + setting, "\n");
}

LogChoice in_place() {
  LogChoice choice;
  choice.in_place = true;
  return choice;
}

TEST(RcclTable, NamesTheAlgorithmBehindItsRows) {
  MadeLog made;
  made.program = "all_reduce_perf";
  made.factor = 30.0 / 16;
  made.parts = 1;
  made.redop = "sum";
  const std::string plain = made.text();
  for (const char* extra : {"    Ring    Simple          56", "     N/A       N/A         N/A"}) {
    const std::string text = each_line(plain, [&](const std::string& line) {
      if (line.find("busbw  #wrong") != std::string::npos) return line + " algo proto nchannels";
      return line.find(" float ") != std::string::npos ? line + extra : line;
    });
    const Log log = read_made(text);
    EXPECT_EQ(log.samples.size(), 6u);
    EXPECT_EQ(log.notes, read_made(plain).notes);
    EXPECT_DOUBLE_EQ(log.samples.at(3).time.value, read_made(plain).samples.at(3).time.value);
  }
}

TEST(RcclCsv, HasRowsInPlaceAndOutOfPlace) {
  const Log log = read_made(csv_of("2,16,8,1,"));
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 2 hosts");
  ASSERT_EQ(log.samples.size(), 6u);
  EXPECT_TRUE(log.checked);
  const Log slower = read_made(csv_of("2,16,8,1,"), in_place());
  ASSERT_EQ(slower.samples.size(), 6u);
  EXPECT_NEAR(slower.samples.at(0).time / log.samples.at(0).time, 2, 1e-4);
  EXPECT_FALSE(slower.checked);
  EXPECT_THAT(refusal_of("size,time,in_place,ranks,nodes,op\n1024,5,0,2,1,alltoall\n", in_place()),
              HasSubstr("has no in-place times\nhint: leave out --in-place"));
  EXPECT_THAT(refusal_of("size,time,in_place,ranks,nodes,op\n1024,5,true,2,1,alltoall\n"),
              HasSubstr("has only in-place times\nhint: --in-place takes them"));
  EXPECT_THAT(refusal_of("size,time,in_place,ranks,nodes,op\n1024,5,2,2,1,alltoall\n"),
              HasSubstr("'in_place' is '2', neither 0 nor 1"));
}

TEST(TableOfBothPlaces, HasColumnsForEach) {
  const std::string text =
      "op,ranks,nodes,size,oop_time_us,ip_time_us\nalltoall,16,2,1024,5,7\nalltoall,16,2,2048,6,"
      "8\n";
  EXPECT_DOUBLE_EQ(read_made(text).samples.at(0).time.value, 5e-6);
  EXPECT_DOUBLE_EQ(read_made(text, in_place()).samples.at(0).time.value, 7e-6);
}

TEST(RcclCsv, CountsGpusOfAllProcesses) {
  EXPECT_EQ(read_made(csv_of("2,2,1,8,")).what, "alltoall, 16 ranks, between 2 hosts");
  EXPECT_THAT(refusal_of(csv_of("2,4,2,8,")),
              HasSubstr("of alltoall with 32 ranks is a 'busbw' of"));
}

// Versions up to 2025 name no column for the nodes, and say 1 of any number of them.
TEST(RcclCsv, OfOneNodeMayBeOfMany) {
  const std::string old = "numCycle,collective,ranks,rankspernode,gpusperrank,";
  const std::string text = csv_of("1,16,16,1,", old);
  EXPECT_THAT(refusal_of(text), HasSubstr("says one node of 16 ranks, which rccl-tests say of any "
                                          "number of nodes\nhint: --hosts N"));
  LogChoice choice;
  choice.hosts = 2;
  EXPECT_EQ(read_made(text, choice).what, "alltoall, 16 ranks, between 2 hosts");
  choice = {};
  choice.reach = LinkReach::host;
  EXPECT_EQ(read_made(text, choice).what, "alltoall, 16 ranks, inside a host");
  EXPECT_EQ(read_made(csv_of("16,", "numCycle,collective,gpus,")).what,
            "alltoall, 16 ranks, inside a host");
}

TEST(RcclJson, HasTheRowsOfItsCsv) {
  const std::string keys =
      R"({{"numCycle":0, "name":"AlltoAll", "nodes":2, "ranks":2, "ranksPerNode":1, )"
      R"("gpusPerRank":8, "size":{}, "type":"float", "redop":"none", "inPlace":{}, "time":{:.6g}, )"
      R"("algBw":{:.6g}, "busBw":{:.6g}, "wrong":"{}"}})";
  std::string rows = rows_of(keys, "", ",\n");
  rows.resize(rows.size() - 2);
  const Log csv = read_made(csv_of("2,2,1,8,"));
  for (const std::string& text : {"[\n" + rows + "\n]\n", rows_of(keys, "", "\n")}) {
    const Log log = read_made(text);
    EXPECT_EQ(log.kind, "rccl-tests JSON");
    EXPECT_EQ(log.what, csv.what);
    ASSERT_EQ(log.samples.size(), csv.samples.size());
    EXPECT_EQ(log.samples.at(5).time, csv.samples.at(5).time);
  }
}

}  // namespace
}  // namespace moesim
