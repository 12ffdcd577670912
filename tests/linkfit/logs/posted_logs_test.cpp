// SPDX-License-Identifier: Apache-2.0
// What launchers and NCCL put around and into the output of nccl-tests, and logs of several tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int64_t> sizes_in(const Log& log) {
  std::vector<std::int64_t> sizes;
  for (const Sample& s : log.samples) sizes.push_back(s.bytes.value);
  return sizes;
}

/// Each form has the times of the plain log.
void expect_as_plain(const std::string& text, const MadeLog& made = {}) {
  const Log plain = read_made(made.text()), log = read_made(text);
  EXPECT_EQ(log.what, plain.what);
  EXPECT_EQ(log.gpu, plain.gpu);
  EXPECT_EQ(log.library, plain.library);
  EXPECT_EQ(sizes_in(log), sizes_in(plain));
  for (std::size_t i = 0; i < log.samples.size(); ++i) {
    EXPECT_DOUBLE_EQ(log.samples[i].time.value, plain.samples[i].time.value) << i;
  }
  EXPECT_THAT(log.notes, ElementsAre());
}

TEST(PostedLog, HasPrefixesOfAnyForm) {
  for (const char* prefix :
       {"[1,0]<stdout>:", "[prterun-node0-77@1,0]<stdout>: ",
        "Thu Nov 26 01:02:03 2026[1,0]<stdout>:", "0: ", "  0: ", "[0] ", "[node0:0] ",
        "node0: ", "[pod/nccl-launcher-x7k2p/nccl] ", "2026-01-02T03:04:05.678901234Z stdout F ",
        "launcher-1  | ", "> ", "    ", "(head, rank=0, pid=3808) [1,0]<stdout>:",
        "\x1b[36mlauncher\x1b[0m | ", "[1767323045.123] "}) {
    SCOPED_TRACE(prefix);
    expect_as_plain(
        each_line(MadeLog{}.text(), [&](const std::string& line) { return prefix + line; }));
  }
}

TEST(PostedLog, MayBeKeptByAContainer) {
  const auto kept = [](const std::string& line) {
    std::string json = "{\"log\":\"";
    for (const char c : line) json += c == '\t' ? "\\t" : std::string(1, c);
    return json + "\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05.678901234Z\"}";
  };
  expect_as_plain(each_line(MadeLog{}.text(), kept));
}

TEST(PostedLog, MayBeKeptAsJsonOfOtherKeys) {
  for (const char* entry : {R"({"stream":"stdout","log":"%\n","time":"2026-01-02T03:04:05Z"})",
                            R"({"line":"%","timestamp":"1767323045"})",
                            R"({"@timestamp":"2026-01-02T03:04:05Z","message":"%"})"}) {
    SCOPED_TRACE(entry);
    expect_as_plain(each_line(MadeLog{}.text(),
                              [&](const std::string& line) { return with(entry, "%", line); }));
  }
}

TEST(PostedLog, MayBeXmlOfMpirun) {
  expect_as_plain(each_line(MadeLog{}.text(), [](const std::string& line) {
    return "<stdout rank=\"0\">" + line + "&#010;</stdout>";
  }));
}

TEST(PostedLog, OfTwoRunsAtOnceSaysSo) {
  const std::string head = "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n";
  MadeLog made;
  std::string text = head + made.text();
  text = with(text, made.rank(0), made.rank(0) + made.rank(0));
  EXPECT_THAT(refusal_of(text), HasSubstr("lists a rank twice"));
}

TEST(PostedLog, OfTestsBehindTagsNamesThem) {
  const auto tagged = [](const std::string& tag) {
    return each_line(MadeLog{}.text(), [&](const std::string& line) { return tag + line; });
  };
  const std::string one = tagged("n1: "), other = tagged("n2: ");
  std::string mixed;
  for (std::size_t a = 0, b = 0; a < one.size(); ++a, ++b) {
    const std::size_t first = one.find('\n', a), second = other.find('\n', b);
    mixed += one.substr(a, first + 1 - a) + other.substr(b, second + 1 - b);
    a = first, b = second;
  }
  EXPECT_THAT(refusal_of(mixed),
              HasSubstr("holds lines of 2 tests that ran at once, behind 'n1:' and 'n2:'\n"
                        "hint: take the lines of one, as grep -F 'n1:' does"));
  expect_as_plain(one);
}

TEST(PostedLog, MayHaveErrorsThatAreNoNumbers) {
  MadeLog made;
  const std::string row = made.row(0);
  const std::string odd = with(row, "       0  ", "     nan  ");
  const Log log = read_made(with(made.text(), row, odd));
  EXPECT_EQ(std::ssize(log.samples), made.sizes);
  EXPECT_FALSE(log.checked);
}

TEST(PostedLog, MayHaveBlanksOfBrowsers) {
  expect_as_plain(each_line(MadeLog{}.text(), [](std::string line) {
    for (auto at = line.find("  "); at != std::string::npos; at = line.find("  ", at)) {
      line.replace(at, 1, "\xc2\xa0");
    }
    return line;
  }));
}

// Numbers of twelve digits touch the tag.
TEST(PostedLog, TellsLargeSizesFromATag) {
  MadeLog made;
  made.first = 137438953472;
  made.sizes = 2;
  expect_as_plain(each_line(made.text(),
                            [](const std::string& line) {
                              return "[1,0]<stdout>:" + line.substr(line.find_first_not_of(' '));
                            }),
                  made);
}

TEST(PostedLog, HasLinesOfNcclAnywhere) {
  const std::string info =
      "node1:4009:4109 [1] NCCL INFO comm 0x55d1c0000009 rank 9 nranks 16 cudaDev 1 busId 11000 - "
      "Destroy COMPLETE\n";
  const std::string warn =
      "\nnode0:4000:4100 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: exit 1048576 1 "
      "float\n";
  const MadeLog made;
  for (int k = 0; k < made.sizes; ++k) {
    const std::string row = made.row(k);
    for (const std::string& line : {info, warn}) {
      SCOPED_TRACE(line);
      expect_as_plain(with(made.text(), row, line + row + line + line));
    }
  }
  expect_as_plain(made.text() + info);
}

// Neither counts that overflow nor tags without an end are of interest.
TEST(PostedLog, MayHoldAnything) {
  const std::string many(100'000, '[');
  expect_as_plain("nThread 9223372036854775807 nGpus 9223372036854775807\n]<std[1,0]<stdout\n" +
                  many + "]<stdout>:\n" + MadeLog{}.text());
  EXPECT_EQ(read_made(MadeLog{}.text() + "9223372036854775807 9223372036854775807 float none -1\n")
                .samples.size(),
            6u);
}

// Rows are printed in three pieces, and other processes print in between.
TEST(PostedLog, HasRowsThatOtherOutputBroke) {
  const MadeLog made;
  const std::string row = made.row(2);
  const std::string info =
      "node1:4009:4109 [1] NCCL INFO Channel 00/0 : 9[1] -> 2[2] via P2P/IPC\n";
  const std::size_t root = row.find("-1") + 2, wrong = row.find("       0") + 8;
  const std::string begin = row.substr(0, root), out = row.substr(root, wrong - root),
                    in = row.substr(wrong);
  expect_as_plain(with(made.text(), row, begin + info + info + out + in));
  expect_as_plain(with(made.text(), row, begin + out + info + in));
  expect_as_plain(with(made.text(), row, begin + info + out + "\n" + info + in));
  const std::string tag = "[1,0]<stdout>:";
  expect_as_plain(with(made.text(), row, tag + begin + tag + out + tag + in));
}

TEST(PostedLog, HasRowsAroundTextThatEndsInNumbers) {
  const MadeLog made;
  const std::string row = made.row(2);
  const std::size_t at = row.find('.', row.find("float")) + 3;  // behind the first time
  for (const char* const other : {"node0: still running", "node0: took 3", "node0 3 4 5 s"}) {
    const std::string text = row.substr(0, at) + "\n" + other + "\n" + row.substr(at);
    const Log log = read_made(with(made.text(), row, text));
    ASSERT_EQ(log.samples.size(), 6U) << other;
    EXPECT_EQ(log.samples[2].time, read_made(made.text()).samples[2].time);
    EXPECT_EQ(log.notes.size(), 0U);
  }
}

TEST(PostedLog, MayFailAfterItsEnd) {
  const Log log = read_made(MadeLog{}.text() + "srun: error: task 0 failed\n");
  EXPECT_EQ(log.samples.size(), 6U);
  EXPECT_EQ(log.notes.size(), 0U);
}

TEST(PostedLog, MaySayHowManyGpusNoProcessHas) {
  const std::string text = MadeLog{}.text();
  for (const char* const said :
       {"nThread 0 nGpus 1", "nThread 1 nGpus 1025", "nThread 64 nGpus 64", "nThread x nGpus 1"}) {
    EXPECT_EQ(read_made(with(text, "nThread 1 nGpus 1", said)).what, read_made(text).what) << said;
  }
}

TEST(PostedLog, MayLackTheRankOfALineOfNccl) {
  const MadeLog made;
  for (const char* const line :
       {"n0:1:2 [0] NCCL INFO comm 0x1 nranks 4\n", "NCCL INFO comm 0x1 rank 0 nranks 4\n",
        "n0:1:2 [0] NCCL INFO comm 0x1 rank 4 nranks 4\n"}) {
    EXPECT_EQ(read_made(line + made.text()).what, read_made(made.text()).what) << line;
  }
}

TEST(PostedLog, IsTextAndHasItsHash) {
  EXPECT_EQ(read_made(MadeLog{}.text()).hash, hash_of(MadeLog{}.text()));
  EXPECT_THAT(refusal_of("\xff" + MadeLog{}.text()), HasSubstr("byte 0xff is not UTF-8 text"));
}

TEST(PostedLog, OfAnotherProgramIsNamed) {
  EXPECT_THAT(refusal_of("{\"nccl-bw:nvlink/alltoall_1048576_time:0\": 41.65}"),
              HasSubstr("is the output of SuperBench"));
  EXPECT_THAT(refusal_of("# OSU MPI-CUDA All-to-All Latency Test v7.2\n# Size  Avg Latency(us)\n"),
              HasSubstr("is the output of the OSU micro-benchmarks, not of nccl-tests"));
  EXPECT_THAT(
      refusal_of(" #bytes #iterations    t_min[usec]    t_max[usec]\n 2       1000   1.70\n"),
      HasSubstr("is the output of perftest"));
  EXPECT_THAT(refusal_of("[rank 0] Dispatch + combine bandwidth: 85.11 GB/s, avg_t=258.05 us\n"),
              HasSubstr("is the output of DeepEP's test"));
  EXPECT_THAT(refusal_of("Collective:             Alltoall\nMemory type:            cuda\n"),
              HasSubstr("is the output of ucc_perftest"));
  EXPECT_THAT(refusal_of("[config] num_tokens=4096, hidden=7168\n[tuning] SMs 24: 43.26 GB/s\n"),
              HasSubstr("DeepEP's test, whose bytes per link depend on the routing"));
}

TEST(PostedLog, MayBeginWithABrace) {
  expect_as_plain("{noformat}\n" + MadeLog{}.text() + "{noformat}\n");
}

TEST(PostedLog, SaysHowManyRowsAreLost) {
  const MadeLog made;
  const std::string row = made.row(2);
  const Log log = read_made(with(made.text(), row, row.substr(0, 60) + "\n"));
  EXPECT_EQ(log.samples.size(), 5u);
  EXPECT_THAT(log.notes, ElementsAre("leaves out 1 row that other output broke, first in line 28"));
}

TEST(PostedLog, MayHaveRowsGluedToTheNext) {
  const MadeLog made;
  const std::string third = made.row(2), last = made.row(5);
  const auto glued = [](const std::string& row) { return row.substr(0, row.size() - 1); };
  expect_as_plain(with(made.text(), third, glued(third)));
  expect_as_plain(with(made.text(), third + made.row(3), glued(third) + glued(made.row(3))));
  expect_as_plain(with(made.text(), last, glued(last)));
  const Log log = read_made(with(made.text(), third, third.substr(0, 60)));
  EXPECT_EQ(log.samples.size(), 5u);
  EXPECT_THAT(log.notes, ElementsAre("leaves out 1 row that other output broke, first in line 28"));
}

TEST(PostedLog, NamesProgramsInManyWays) {
  for (const char* name :
       {"alltoall_perf_mpi", "alltoall_perf", "/opt/nccl_tests/alltoall_perf_mpi_cuda13",
        "./build/alltoall_perf.exe"}) {
    MadeLog made;
    made.program = name;
    EXPECT_EQ(read_made(made.text()).what, "alltoall, 16 ranks, between 2 hosts") << name;
  }
}

TEST(PostedLog, HasRowsThatATimeOrADumpBroke) {
  MadeLog made;
  const std::string row = made.row(2);
  const std::size_t half = row.find("-1") + 2;
  const std::string first = row.substr(0, half), second = row.substr(half);
  const std::string info = "n1:100:200 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n";
  expect_as_plain(with(made.text(), row, first + "[2026-11-30 19:57:12.123456] " + info + second));
  const std::string dump = "00000000 00000000 00000000 00000000\n";
  expect_as_plain(
      with(made.text(), row, first + "\nmlx5: n1: got completion with error:\n" + dump + second));
}

TEST(PostedLog, MayHaveNoRows) {
  MadeLog made;
  made.sizes = 0;
  EXPECT_THAT(refusal_of(made.text()), HasSubstr("has no rows below the names of its columns"));
}

TEST(PostedLog, HasRunsOfOneSetting) {
  MadeLog second;
  second.sizes = 4;
  const Log log = read_made("CASE 1\n" + MadeLog{}.text() + "========\nCASE 2\nmpirun -np 16 x\n" +
                            second.text());
  EXPECT_EQ(log.runs, 2);
  EXPECT_EQ(log.samples.size(), 10u);
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 2 hosts");
  // Excerpts: tables without what is around them.
  LogChoice choice;
  choice.collective = Collective::alltoall;
  choice.ranks = 16;
  choice.hosts = 2;
  MadeLog table;
  table.preamble = false;
  EXPECT_EQ(read_made(table.text() + "\n" + table.text(), choice).runs, 2);
}

TEST(PostedLog, HasTestsOfSeveralSettings) {
  MadeLog gather;
  gather.program = "all_gather_perf";
  MadeLog few;
  few.ranks = 8;
  few.factor = 7.0 / 8;
  const std::string text = gather.text() + few.text() + MadeLog{}.text();
  const Log taken = read_made(text);
  EXPECT_EQ(taken.what, "alltoall, 16 ranks, between 2 hosts");
  EXPECT_EQ(taken.samples.size(), 6u);
  EXPECT_THAT(taken.notes,
              Contains("holds several settings: takes alltoall of 16 ranks on 2 hosts; "
                       "--collective, --ranks or --test N (the N-th test) take another: "
                       "all_gather of 16 ranks on 2 hosts; alltoall of 8 ranks on 1 host"));
  LogChoice choice;
  choice.collective = Collective::all_gather;
  EXPECT_EQ(read_made(text, choice).what, "all_gather, 16 ranks, between 2 hosts");
  choice = {};
  choice.test = 2;
  EXPECT_EQ(read_made(text, choice).what, "alltoall, 8 ranks, inside a host");
  choice.test = 4;
  EXPECT_THAT(refusal_of(text, choice), HasSubstr("has 3 tests, not 4"));
}

// All-to-all in one size can be fitted by nobody.
TEST(PostedLog, TakesASettingOfSeveralSizes) {
  MadeLog gather;
  gather.program = "all_gather_perf";
  MadeLog single;
  single.sizes = 1;
  EXPECT_EQ(read_made(single.text() + gather.text()).what, "all_gather, 16 ranks, between 2 hosts");
}

// The command names the test of versions that do not.
TEST(PostedLog, NamesATestByItsCommand) {
  MadeLog made;
  made.program = "";
  const auto what = [&](const std::string& command) {
    return read_made(command + "\n" + made.text()).what;
  };
  EXPECT_EQ(what("$ mpirun -np 16 ./build/all_gather_perf -b 1M -e 32M -f 2 -g 1"),
            "all_gather, 16 ranks, between 2 hosts");
  EXPECT_EQ(what("srun /opt/nccl_tests/reduce_scatter_perf_mpi -b 1M"),
            "reduce_scatter, 16 ranks, between 2 hosts");
}

TEST(PostedLog, ACommandBetweenTestsNamesTheSecond) {
  MadeLog made;
  made.program = "";
  const std::string text =
      "$ ./build/all_gather_perf\n" + made.text() + "$ ./build/alltoall_perf\n" + made.text();
  LogChoice choice;
  choice.test = 1;
  EXPECT_EQ(read_made(text, choice).what, "all_gather, 16 ranks, between 2 hosts");
  choice.test = 2;
  EXPECT_EQ(read_made(text, choice).what, "alltoall, 16 ranks, between 2 hosts");
}

TEST(PostedLog, DidNotEndEarlyIfItsSummaryIsThere) {
  const Log log =
      read_made(with(MadeLog{}.text(), "# Out of", "srun: error: node1: task 9: Killed\n# Out of"));
  EXPECT_THAT(log.notes, ElementsAre());
}

TEST(PostedLog, SaysWhatEndedItEarly) {
  MadeLog made;
  made.ended = false;
  const auto note = [&](const std::string& end) {
    const Log log = read_made(made.text() + end);
    EXPECT_EQ(log.samples.size(), 6u);
    return log.notes.at(0);
  };
  EXPECT_EQ(note(""), "ends early, after 6 rows: the summary of nccl-tests is missing");
  EXPECT_EQ(note("srun: error: node1: task 9: Killed\nmpirun noticed that ...\n"),
            "ends early, after 6 rows: line 32 says 'srun: error: node1: task 9: Killed'");
  EXPECT_EQ(
      note("node1:4009:4109 [1] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event\n"),
      "ends early, after 6 rows: line 32 says 'node1:4009:4109 [1] transport/net_ib.cc:95 NCCL "
      "WARN NET/IB : Got async event'");
  EXPECT_EQ(
      note("node1: Test NCCL failure alltoall.cu:69 'remote process exited'\n"),
      "ends early, after 6 rows: line 32 says 'node1: Test NCCL failure alltoall.cu:69 'remote "
      "process exited''");
  EXPECT_EQ(note(made.row(6).substr(0, 70)),
            "ends early, after 6 rows: line 32 is cut in the middle of a row");
}

TEST(PostedLog, TakesTheTestsThatWorked) {
  MadeLog killed;
  killed.ended = false;
  killed.sizes = 0;
  const Log log =
      read_made(killed.text() + "srun: error: node1: task 9: Killed\n" + MadeLog{}.text());
  EXPECT_EQ(log.samples.size(), 6u);
  EXPECT_EQ(
      log.notes.at(0),
      "the test of line 1 ends early, after 0 rows: line 26 says 'srun: error: node1: task 9: "
      "Killed'");
}

}  // namespace
}  // namespace moesim
