// SPDX-License-Identifier: Apache-2.0
// moesim calibrate on logs whose rows it has to choose from.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A row of nccl-tests: microseconds of an all-to-all out of place and in place.
std::string alltoall_row(int ranks, double size, double out_of_place, double in_place) {
  const auto half = [&](double time) {
    const double rate = size / time / 1e3;
    return fmt::format("{:9.2f} {:7.2f} {:7.2f}", time, rate, rate * (ranks - 1) / ranks);
  };
  return fmt::format("{:12.0f} {:12.0f}     float    none      -1 {}      0 {}    N/A\n", size,
                     size / 4 / ranks, half(out_of_place), half(in_place));
}

/// The lines above the rows of a test on one host.
std::string head_of_test(int ranks) {
  std::string text = fmt::format(
      "# nThread 1 nGpus {} minBytes 1024 maxBytes 268435456 step: 4(factor) warmup iters: 5 "
      "iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n# Using devices\n",
      ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    text += fmt::format(
        "#  Rank  {0} Group  0 Pid   400{0} on    node0 device  {0} "
        "[0000:0{0}:00] Test GPU\n",
        rank);
  }
  return "# nccl-tests version 2.19.6 nccl-headers=22703 nccl-library=22703\n"
         "# Collective test starting: alltoall_perf\n" +
         text +
         "#       size         count      type   redop    root     time   algbw   busbw  #wrong    "
         " "
         "time   algbw   busbw  #wrong\n";
}

constexpr const char* end_of_test = "# Out of bounds values : 0 OK\n";
constexpr double mebibyte = 1 << 20;

/// 10 us and then so many GB/s of a rank's bytes to others.
double time_of_alltoall(int ranks, double size, double rate) {
  return 10 + size * (ranks - 1) / ranks / (rate * 1e3);
}

TEST(CalibrateLogs, InPlaceTimesAreTakenWhenAsked) {
  const Scratch scratch;
  std::string text = head_of_test(8);
  for (const int size : {1, 4, 16, 64}) {
    const double bytes = size * mebibyte, time = time_of_alltoall(8, bytes, 100);
    text += alltoall_row(8, bytes, time, 2 * time);
  }
  std::ofstream(scratch.file("a.log")) << text << end_of_test;
  const auto fitted = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"calibrate", scratch.file("a.log")};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = run_shipped(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(fitted({}), testing::AllOf(HasSubstr("latency: 2.00"),
                                         HasSubstr("{size: 56 MiB, rate: 100 GB/s}")));
  EXPECT_THAT(fitted({"--in-place"}), testing::AllOf(HasSubstr("latency: 7 us "),
                                                     HasSubstr("{size: 14 MiB, rate: 50 GB/s}")));
}

// At 4 ranks a peer gets as much of half a buffer as at 8 ranks of a whole one.
TEST(CalibrateLogs, OtherRankCountsTellSizesThatWereNotMeasured) {
  const Scratch scratch;
  std::string text = head_of_test(8);
  for (const int size : {1, 2, 8, 16, 64}) {
    const double time = time_of_alltoall(8, size * mebibyte, 100);
    text += alltoall_row(8, size * mebibyte, time, time);
  }
  text += end_of_test + head_of_test(4);
  for (const int size : {1, 2, 4, 8, 16, 64}) {
    const double bytes = size * mebibyte / 2,
                 time = time_of_alltoall(4, bytes, size == 4 ? 50 : 100);
    text += alltoall_row(4, bytes, time, time);
  }
  std::ofstream(scratch.file("a.log")) << text << end_of_test;
  const auto fitted = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"calibrate", scratch.file("a.log"), "--ranks", "8"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = run_shipped(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(fitted({}), Not(HasSubstr("size: 3584 KiB")));
  const std::string beside = fitted({"--beside", "4"});
  EXPECT_THAT(beside, testing::ContainsRegex("\\{size: 3584 KiB, rate: 50\\.[0-9]* GB/s\\}"));
  EXPECT_THAT(beside, HasSubstr(" --ranks '8' --beside '4'\""));
}

TEST(CalibrateLogs, HostsBeyondAnyNumberAreRefused) {
  const Outcome outcome =
      run_shipped({"calibrate", MOESIM_ROOT "/tests/fixtures/logs/alltoall-1.log", "--hosts",
                   "99999999999999999999"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'99999999999999999999' is neither a number of hosts nor"));
}

TEST(CalibrateLogs, HostsMayBeAFile) {
  const Scratch scratch;
  std::string rows;
  for (const int size : {1, 4, 16, 64}) {
    const double bytes = size * mebibyte, time = time_of_alltoall(16, bytes, 40);
    rows += alltoall_row(16, bytes, time, time);
  }
  std::ofstream(scratch.file("a.log")) << rows << end_of_test;
  const auto calibrated = [&](const std::string& hosts) {
    return run_shipped({"calibrate", scratch.file("a.log"), "--ranks", "16", "--collective",
                        "alltoall", "--hosts", hosts});
  };
  const auto with_file = [&](const std::string& text) {
    std::ofstream(scratch.file("hosts.txt")) << text;
    return calibrated(scratch.file("hosts.txt"));
  };
  for (const char* text :
       {"# two\nn1 slots=8 max_slots=8\n\nn2 slots=8\n", "n1:8\nn2:8\n", "n1\nn1\nn2\nn2\n",
        "gpu[001-002]\n", "NODELIST\ngpu[001-002]\n", "HOSTNAMES \nn1\nn2\n",
        "rank 0=n1 slot=0\nrank 1=n1 slot=1\nrank 2=n2 slot=0:0-3\n",
        "root@n1 slots=8  # first\r\nroot@n2 slots=8\r\n"}) {
    EXPECT_THAT(with_file(text).err, HasSubstr("alltoall, 16 ranks, between 2 hosts")) << text;
  }
  EXPECT_THAT(with_file("n1 slots=4\nn2 slots=4\n").err,
              HasSubstr("16 ranks need more than the 8 slots of --hosts"));
  const Outcome other = with_file("n1 slots=8\n[gpu]\n");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("hosts.txt:2: error: '[gpu]' does not name a host and its slots\nhint: a "
                        "line per host, as mpirun takes them: n1 slots=8, or n1:8"));
  EXPECT_THAT(calibrated("n1").err, HasSubstr("takes all 16 ranks as on one host, 'n1', as"));
  EXPECT_EQ(with_file("node = n1\n").code, 2);
  EXPECT_THAT(calibrated(scratch.file(".")).err, HasSubstr("is not a file of hosts"));
  EXPECT_THAT(with_file("# none\n").err, HasSubstr("hosts.txt: error: names no hosts"));
  for (const std::string& absent : {scratch.file("absent"), std::string("absent.txt"),
                                    std::string("machinefile"), std::string("nodes")}) {
    const Outcome outcome = calibrated(absent);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--hosts: no file '" + absent + "'"));
  }
}

TEST(CalibrateLogs, OneFileTwiceIsNoted) {
  const Scratch scratch;
  const std::string log = MOESIM_ROOT "/tests/fixtures/logs/alltoall-1.log";
  std::ofstream(scratch.file("copy.log")) << content(log);
  const std::string note = "note: has the content of " + log + ": its times count twice";
  EXPECT_THAT(run_shipped({"calibrate", log, scratch.file("copy.log")}).err, HasSubstr(note));
  EXPECT_THAT(
      run_shipped({"calibrate", log, MOESIM_ROOT "/tests/fixtures/logs/alltoall-2.log"}).err,
      Not(HasSubstr("count twice")));
}

TEST(CalibrateLogs, AllTestsOfOneSettingCountUnlessOneIsAskedFor) {
  const Scratch scratch;
  const std::string log = content(MOESIM_ROOT "/tests/fixtures/logs/alltoall-1.log");
  std::ofstream(scratch.file("a.log")) << log << log;
  EXPECT_THAT(run_shipped({"calibrate", scratch.file("a.log")}).err,
              HasSubstr("20 times, 0 rejected"));
  for (const char* one : {"1", "2"}) {
    EXPECT_THAT(run_shipped({"calibrate", scratch.file("a.log"), "--test", one}).err,
                HasSubstr("10 times, 0 rejected"));
  }
  EXPECT_THAT(run_shipped({"calibrate", scratch.file("a.log"), "--test", "3"}).err,
              HasSubstr("has 2 tests, not 3\n"));
}

}  // namespace
}  // namespace moesim
