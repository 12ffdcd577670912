// SPDX-License-Identifier: Apache-2.0
// moesim calibrate: logs in, a file that topologies read out.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string logs = MOESIM_ROOT "/tests/fixtures/logs/alltoall-";

TEST(CalibrateCommand, WritesAFileThatATopologyReads) {
  const Scratch scratch;
  const std::string file = scratch.file("test.calib.yaml");
  const Outcome outcome = run_shipped({"calibrate", logs + "1.log", logs + "4.json", "-o", file});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("20 times, 0 rejected as outliers"));
  EXPECT_THAT(content(file), HasSubstr("name: \"test\"\n"));
  std::ofstream(scratch.file("t.yaml")) << "nodes: 1\nnode:\n  gpu: x\n  gpus: 2\n"
                                           "  nvlink: {kind: switch, calibration: " +
                                               file + "}\n";
  const Outcome shown = run_moesim({"topology", "show", scratch.file("t.yaml")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::ContainsRegex("nvlink  host +4   200 GB/s +3.02"));
}

TEST(CalibrateCommand, SaysOfWhatBandwidthTheLinkWas) {
  const Scratch scratch;
  const std::string file = scratch.file("test.calib.yaml");
  const Outcome outcome =
      run_shipped({"calibrate", logs + "1.log", "-o", file, "--nominal", "1600 Gbit/s"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(content(file), HasSubstr("nominal: 1600 Gbit/s  # given"));
  EXPECT_THAT(content(file), HasSubstr("--nominal '1600 Gbit/s'"));
  std::ofstream(scratch.file("t.yaml")) << "nodes: 1\nnode:\n  gpu: x\n  gpus: 2\n"
                                           "  nvlink: {kind: switch, bandwidth: 400 GB/s, "
                                           "calibration: " +
                                               file + "}\n";
  const Outcome shown = run_moesim({"topology", "show", scratch.file("t.yaml")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::ContainsRegex("nvlink  host +4  398.9 GB/s +2.96 us"));
}

TEST(CalibrateCommand, PrintsTheFileAndTellsTheRestBesideIt) {
  const Outcome outcome = run_shipped({"calibrate", logs + "1.log"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, StartsWith("# Written by `moesim calibrate`"));
  EXPECT_THAT(outcome.out, HasSubstr("name: \"alltoall-1\"\n"));
  EXPECT_THAT(outcome.err, HasSubstr("the best straight line would be off by up to"));
}

TEST(CalibrateCommand, LeavesToTheTopologyWhatItHasAsOverhead) {
  const Outcome outcome = run_shipped(
      {"calibrate", logs + "1.log", "--exchange-overhead", "1 ms", "--date", "2026-01"});
  EXPECT_THAT(outcome.out, HasSubstr("latency: 0 us"));
  EXPECT_THAT(outcome.out, HasSubstr("date: \"2026-01\""));
}

TEST(CalibrateCommand, LeavesToSimulatedNcclWhatItTakesToStart) {
  const auto calibrated = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"calibrate", logs + "1.log"});
    return run_shipped(words);
  };
  const Outcome plain = calibrated({});
  EXPECT_THAT(plain.err, HasSubstr("fixed time 11.92 us +- 0.36356 us,\nnccl-p2p takes 6 "
                                   "us of it to start\n"));
  EXPECT_THAT(plain.out, HasSubstr("latency: 2.96 us  # measured; of one link, two on a route\n"));
  EXPECT_THAT(plain.out, HasSubstr("elsewhere: 6 us  # nccl-p2p starts\n"));
  const Outcome given = calibrated({"--exchange-overhead", "0 us"});
  EXPECT_THAT(given.out, HasSubstr("latency: 5.96 us"));
  EXPECT_THAT(given.err, HasSubstr("fixed time 11.92 us +- 0.36356 us\n"));
}

/// A table of sizes with `fixed` us besides 10 GB/s.
std::string table_of(const std::string& collective, int ranks, int hosts, double fixed) {
  std::string text = "size,time_us,collective,ranks,hosts\n";
  for (double size = 1024; size < 1e9; size *= 4) {
    text += fmt::format("{},{},{},{},{}\n", size, fixed + size / 1e4, collective, ranks, hosts);
  }
  return text;
}

TEST(CalibrateCommand, DividesWhatRemainsByTheHopsOfARing) {
  const Scratch scratch;
  const auto latency = [&](const char* collective, int ranks, int hosts, double fixed) {
    const std::string file = scratch.file("a.csv");
    std::ofstream(file) << table_of(collective, ranks, hosts, fixed);
    const std::string yaml = run_shipped({"calibrate", file}).out;
    const std::size_t at = yaml.find("latency: ");
    return yaml.substr(at, yaml.find('\n', at) - at);
  };
  // nccl-p2p: 14 us between hosts and 0.2 us for each peer; nccl-ring: 3 us inside a host.
  EXPECT_THAT(latency("alltoall", 64, 8, 46.6), StartsWith("latency: 10 us"));
  EXPECT_THAT(latency("sendrecv", 2, 2, 20), StartsWith("latency: 2.9 us"));
  EXPECT_THAT(latency("all_gather", 8, 1, 10),
              StartsWith("latency: 0.5 us  # measured; of one link, two on a route, 7 rounds"));
}

/// A table without ranks, of 16 ranks: 45 GB/s and 20 us where half of the bytes leave a host.
std::string excerpt() {
  return "#       size         count      type   redop    root     time   algbw   busbw  #wrong    "
         " time "
         "  algbw   busbw  #wrong\n"
         "     4194304         65536     float    none      -1    66.60   62.98   59.04       0    "
         "66.60 "
         "  62.98   59.04    N/A\n"
         "    67108864       1048576     float    none      -1   765.65   87.65   82.17       0   "
         "765.65 "
         "  87.65   82.17    N/A\n"
         "  1073741824      16777216     float    none      -1  11950.5   89.85   84.23       0  "
         "11950.5 "
         "  89.85   84.23    N/A\n";
}

TEST(CalibrateCommand, TakesHostsAndDomainsThatLogsDoNotSay) {
  const Scratch scratch;
  const std::string log = scratch.file("a.log");
  std::ofstream(log) << excerpt();
  std::ofstream(scratch.file("t.yaml"))
      << "nodes: 2\nnode:\n  gpu: x\n  gpus: 8\n"
         "  nvlink: {kind: switch, bandwidth: 1 GB/s, latency: 1 us}\n"
         "  nics: {count: 1, bandwidth: 1 GB/s, latency: 1 us}\n"
         "fabric: {kind: switch}\n";
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"calibrate", log, "--ranks", "16"});
    return run_shipped(words);
  };
  const Outcome asked = run({});
  EXPECT_EQ(asked.code, 2);
  EXPECT_THAT(asked.err, HasSubstr("hint: --hosts says how many"));
  for (const char* hosts : {"2", "n1,n2", "n1:8,n2:8", "n[1-2]", "n[1,3]:8"}) {
    const Outcome outcome = run({"--hosts", hosts});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("alltoall, 16 ranks, between 2 hosts"));
    EXPECT_THAT(outcome.err, HasSubstr("32 MiB       45 GB/s"));
    EXPECT_THAT(outcome.err, HasSubstr("  note: ends early, after 3 rows"));
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("--ranks '16' --hosts '{}'", hosts)));
    EXPECT_THAT(outcome.out, HasSubstr("      notes:\n        - \"ends early, after 3 rows"));
  }
  EXPECT_THAT(run({"--hosts", "4", "--topology", scratch.file("t.yaml")}).err,
              HasSubstr("between 2 NVLink domains of 4 hosts"));
  EXPECT_THAT(run({"--hosts", "4", "--domain", "16"}).err,
              HasSubstr("inside an NVLink domain of 4 hosts"));
  EXPECT_THAT(run({"--hosts", "n1:4,n2:8"}).err, HasSubstr("more than the 12 slots"));
  EXPECT_THAT(run({"--hosts", "n[1-2"}).err, HasSubstr("brackets do not match"));
  EXPECT_THAT(run({"--domain", "8", "--topology", "t"}).err, HasSubstr("leave one of them out"));
  for (const char* hosts : {"0", "-1", "n1,,n2", "n1,", ",n1", ":8,n1", "1048577", "n1:x"}) {
    EXPECT_THAT(run({"--hosts", hosts}).err, HasSubstr("is neither a number of hosts nor"));
  }
}

TEST(CalibrateCommand, WritesTheCommandThatRepeatsIt) {
  const Outcome outcome = run_shipped({"calibrate",
                                       logs + "1.log",
                                       "--name",
                                       "n",
                                       "--collective",
                                       "alltoall",
                                       "--ranks",
                                       "8",
                                       "--hosts",
                                       "1",
                                       "--domain",
                                       "8",
                                       "--test",
                                       "1",
                                       "--reach",
                                       "host",
                                       "--in-place",
                                       "--nominal",
                                       "100 GB/s",
                                       "--source",
                                       "me",
                                       "--date",
                                       "2026-01-02",
                                       "--hold-out",
                                       "2",
                                       "--exchange-overhead",
                                       "5 us"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      HasSubstr("command: \"moesim calibrate alltoall-1.log --collective 'alltoall' --ranks "
                "'8' --hosts '1' --domain '8' --test '1' --reach 'host' --in-place "
                "--exchange-overhead '5 us' --nominal '100 GB/s' --source 'me' --hold-out "
                "'2' --date '2026-01-02'\"\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nname: \"n\"\nsource: \"alltoall, 8 ranks, inside a host; "
                                     "me\"\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nnominal: 100 GB/s "));
  EXPECT_THAT(outcome.out, HasSubstr("exchange_overhead_elsewhere: 5 us\n"));
  EXPECT_THAT(outcome.out, HasSubstr("date: \"2026-01-02\"\n"));
  const Outcome plain = run_shipped({"calibrate", logs + "1.log"});
  EXPECT_THAT(plain.out, HasSubstr("command: \"moesim calibrate alltoall-1.log\"\n"));
  EXPECT_THAT(plain.out, HasSubstr("\nname: \"alltoall-1\"\n"));
}

TEST(CalibrateCommand, TakesRatesFromAByteToAPetabytePerSecond) {
  const auto code = [](const char* rate) {
    return run_shipped({"calibrate", logs + "1.log", "--nominal", rate}).code;
  };
  for (const char* rate : {"1 B/s", "1000 TB/s"}) EXPECT_EQ(code(rate), 0) << rate;
  for (const char* rate : {"0.9 B/s", "1001 TB/s"}) EXPECT_EQ(code(rate), 2) << rate;
}

TEST(CalibrateCommand, HoldsSizesOut) {
  const Outcome outcome = run_shipped({"calibrate", logs + "1.log", "--hold-out", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("held_out: every 2 of 8 sizes in turn\n"));
  EXPECT_THAT(outcome.out, HasSubstr("--hold-out '2'"));
  EXPECT_THAT(outcome.err, HasSubstr("of 8 sizes every 2 held out in turn"));
  EXPECT_EQ(run_shipped({"calibrate", logs + "1.log", "--hold-out", "1"}).code, 2);
}

/// "moesim a 'b c'" without the first word; tables by their paths.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (const char c : command) {
    if (c == '\'') quoted = !quoted;
    if (c == ' ' && !quoted) open = false;
    if (c == '\'' || (c == ' ' && !quoted)) continue;
    if (!open) words.emplace_back();
    open = true;
    words.back() += c;
  }
  words.erase(words.begin());
  for (std::string& word : words) {
    for (const auto& entry : fs::recursive_directory_iterator(MOESIM_SHARED "/calibration")) {
      if (entry.path().filename() == word) word = entry.path().string();
    }
  }
  return words;
}

TEST(ShippedCalibrations, AreWhatTheirCommandsWrite) {
  if (!fs::is_directory(MOESIM_SHARED "/calibration")) {
    GTEST_SKIP() << MOESIM_SHARED "/calibration is absent";
  }
  int count = 0;
  for (const auto& entry : fs::directory_iterator(MOESIM_ROOT "/topologies")) {
    if (!entry.path().string().ends_with(".calib.yaml")) continue;
    const std::string shipped = content(entry.path().string());
    const std::string before = "  command: \"";
    const auto start = shipped.find(before) + before.size();
    std::vector<std::string> words =
        words_of(shipped.substr(start, shipped.find('"', start) - start));
    const Scratch scratch;
    const std::string again = scratch.file(entry.path().filename().string());
    words.insert(words.end(), {"-o", again});
    const Outcome outcome = run_moesim(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(content(again), shipped) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(CalibrateCommand, RefusesBadLogsAndFlags) {
  const Scratch scratch;
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"calibrate", "-o", scratch.file("a.calib.yaml")});
    const Outcome outcome = run_moesim(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(fs::is_empty(scratch.path()));
    return outcome.err;
  };
  EXPECT_THAT(refused({MOESIM_ROOT "/tests/fixtures/bad/logs/wrong-results.log"}),
              HasSubstr("wrong-results.log:23: error: 3 wrong elements at size 1048576"));
  EXPECT_THAT(refused({logs + "1.log", "--reach", "near"}), HasSubstr("neither host nor fabric"));
  EXPECT_THAT(refused({logs + "1.log", "--exchange-overhead", "5"}),
              HasSubstr("'5' is not a time"));
  EXPECT_THAT(refused({logs + "1.log", "--nominal", "0 GB/s"}),
              HasSubstr("'0 GB/s' is not a band"));
  EXPECT_THAT(refused({logs + "1.log", "--nominal", "50"}), HasSubstr("'50' is not a bandwidth"));
  EXPECT_THAT(refused({logs + "1.log", "--nominal", "1e9 TB/s"}), HasSubstr("is not a bandwidth"));
  EXPECT_THAT(refused({logs + "1.log", "--collective", "alltoallv"}), HasSubstr("'alltoallv'"));
  EXPECT_THAT(refused({logs + "9.log"}), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace moesim
