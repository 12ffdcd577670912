// SPDX-License-Identifier: Apache-2.0
// Profiles in logs: NCCL, the flight recorder, Megatron.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/profile/profile_text.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// A dump of a rank whose collectives end at these nanoseconds; the first takes 2 ms.
std::string flight_dump(std::int64_t end) {
  return fmt::format(
      R"({{"version": "2.4", "pg_config": {{"1": {{"name": "1", "desc": "x", "ranks": "[0, 1, 2, 3]"}}}}, "entries": [)"
      R"({{"process_group": ["1", "x"], "collective_seq_id": 1, "profiling_name": "nccl:all_to_all", "input_sizes": [[8, 4]], "input_dtypes": ["BFloat16"], "output_sizes": [[8, 4]], "output_dtypes": ["BFloat16"], "state": "completed", "time_discovered_started_ns": 1, "time_discovered_completed_ns": {}, "duration_ms": 2.0}},)"
      R"({{"process_group": ["1", "x"], "collective_seq_id": 2, "profiling_name": "nccl:all_reduce", "state": "scheduled", "time_discovered_completed_ns": null}}]}})",
      end);
}

TEST(FlightRecorder, IsReadAndAligned) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("a.json", flight_dump(1700000000000000000)),
                                       files.write("b.json", flight_dump(1700000000000300000))});
  ASSERT_EQ(read.profile.ranks.size(), 2U);
  const ProfiledRank& rank = read.profile.ranks[1];
  ASSERT_EQ(rank.kernels.size(), 1U);
  EXPECT_EQ(rank.kernels[0].kind, KernelKind::all_to_all);
  EXPECT_EQ(rank.kernels[0].length, 2000 * us);
  EXPECT_EQ(rank.exchanges[0].in_bytes, 64);
  EXPECT_EQ(rank.exchanges[0].ranks, 4);
  EXPECT_EQ(read.profile.groups[rank.exchanges[0].group], "group 0-3");
  EXPECT_NEAR(read.clocks.largest_shift.value, 300e-6, 1e-12);
  EXPECT_THAT(read.profile.notes, testing::Contains("1 collective did not end"));
}

TEST(FlightRecorder, AddsUpTensorsAndTakesTimesFromBothEnds) {
  const ProfileFiles files;
  const auto entry = [](const char* more) {
    return fmt::format(
        R"({{"process_group": ["7", "x"], "profiling_name": "nccl:all_reduce", "input_sizes": [[8, 4], [3]], "input_dtypes": ["Half", "Float"], "output_sizes": [[2], [5], [0, 9]], "output_dtypes": ["Byte"], {}}})",
        more);
  };
  const std::string text =
      R"({"version": "2.4", "pg_config": {"7": {"name": "7", "ranks": "[2, 3, 4, 9]"}}, "entries": [)" +
      entry(R"("time_discovered_started_ns": 1000000, "time_discovered_completed_ns": 1002500)") +
      "," +
      entry(R"("time_discovered_started_ns": 1010000, "time_discovered_completed_ns": 1013001)") +
      "," + entry(R"("time_discovered_started_ns": 0, "time_discovered_completed_ns": 1014000)") +
      "]}";
  const ReadProfile read = read_files({files.write("a.json", text)});
  const ProfiledRank& rank = read.profile.ranks.at(0);
  EXPECT_EQ(rank.rank, 0);
  ASSERT_EQ(rank.kernels.size(), 2U);
  EXPECT_EQ(rank.kernels[0].length, 2'500'000);
  EXPECT_EQ(rank.kernels[0].end(), 500'000) << "since the microsecond of the first end";
  EXPECT_EQ(rank.kernels[1].end(), 11'001'000);
  EXPECT_EQ(rank.kernels[1].length, 3'001'000);
  EXPECT_EQ(rank.exchanges[0].in_bytes, 8 * 4 * 2 + 3 * 4);
  EXPECT_EQ(rank.exchanges[0].out_bytes, 2 + 5);
  EXPECT_EQ(read.profile.producer, "PyTorch's flight recorder");
  EXPECT_EQ(rank.exchanges[0].ranks, 4);
  EXPECT_EQ(read.profile.groups[rank.exchanges[0].group], "group 2-4,9");
  EXPECT_THAT(read.profile.notes, testing::Contains("1 collective did not end"));
}

/// Every eighth rank of 512, in a description that is long and behind the entries.
TEST(FlightRecorder, CountsTheRanksOfAGroupThatAreFarApart) {
  const ProfileFiles files;
  std::string ranks = "[0";
  for (int rank = 8; rank < 512; rank += 8) ranks += ", " + std::to_string(rank);
  const std::string text =
      R"({"entries": [{"process_group": ["7", "x"], "profiling_name": "nccl:all_reduce", "time_discovered_started_ns": 1000, "time_discovered_completed_ns": 2500}], "pg_config": {"0": {"desc": ")" +
      std::string(100'000, 'x') + R"("}, "7": {"name": "7", "ranks": ")" + ranks + "]\"}}}";
  const ReadProfile read = read_files({files.write("a.json", text)});
  const ProfiledRank& rank = read.profile.ranks.at(0);
  EXPECT_EQ(rank.exchanges.at(0).ranks, 64);
  EXPECT_EQ(rank.streams.at(0).size(), 200U) << "what is printed of its name";
}

TEST(NcclInspector, IsRead) {
  const ProfileFiles files;
  const std::string line =
      R"({"header": {"id": "0xabc", "rank": 3, "n_ranks": 8, "nnodes": 1}, "metadata": {"dump_timestamp_us": 1748030377748202, "hostname": "host7", "pid": 16}, "coll_perf": {"coll": "AllGather", "coll_sn": 7, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 61, "coll_busbw_gbs": 4.8}})";
  const ReadProfile read = read_files({files.write("a.log", line + "\n" + line + "\n")});
  const ProfiledRank& rank = read.profile.ranks.at(0);
  EXPECT_EQ(rank.rank, 3);
  ASSERT_EQ(rank.kernels.size(), 2U);
  EXPECT_EQ(rank.kernels[0].kind, KernelKind::all_gather);
  EXPECT_EQ(rank.kernels[0].length, 61 * us);
  EXPECT_EQ(rank.exchanges[0].in_bytes, 4096);
  EXPECT_THAT(profile_text(ProfileReport(read), 5).text(), testing::Not(HasSubstr("host7")));
}

TEST(NcclInspector, TakesRanksFromTheLineBeforeABatch) {
  const ProfileFiles files;
  const auto batch = [](int rank, const char* id) {
    return fmt::format(
        R"({{"header": {{"id": "{}", "rank": {}, "n_ranks": 8}}, "metadata": {{"inspector_output_format_version": "v4.3", "dump_timestamp_us": 1748030377748202}}, "dump_stats": {{"coll_records": 1, "p2p_records": 1}}}})"
        "\n"
        R"({{"coll_perf": {{"coll": "ReduceScatter", "coll_sn": 7, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 61}}}})"
        "\n"
        R"({{"p2p_perf": {{"p2p": "Send", "p2p_sn": 8, "p2p_peer": 1, "p2p_msg_size_bytes": 512, "p2p_exec_time_us": 9}}}})"
        "\n"
        R"({{"proxy_trace": {{"record_type": "proxy_op", "rank": 5}}}})"
        "\n",
        id, rank);
  };
  const ReadProfile read = read_files({files.write("a.log", batch(3, "0xa") + batch(5, "0xb"))});
  ASSERT_EQ(read.profile.ranks.size(), 2U);
  for (const int at : {0, 1}) {
    const ProfiledRank& rank = read.profile.ranks[at];
    EXPECT_EQ(rank.rank, at == 0 ? 3 : 5);
    ASSERT_EQ(rank.kernels.size(), 2U);
    const bool first = rank.kernels[0].kind == KernelKind::reduce_scatter;
    const ProfiledKernel& sent = rank.kernels[first ? 1 : 0];
    EXPECT_EQ(sent.kind, KernelKind::send_recv);
    EXPECT_EQ(sent.length, 9 * us);
    EXPECT_EQ(rank.exchanges[sent.exchange].sequence, -1) << "no one shares it with the peer";
    EXPECT_EQ(rank.exchanges[sent.exchange].in_bytes, 512);
    EXPECT_EQ(rank.exchanges[sent.exchange].ranks, 8);
    EXPECT_EQ(read.profile.groups[rank.exchanges[sent.exchange].group],
              at == 0 ? "communicator 0 of 8" : "communicator 1 of 8");
  }
}

TEST(NcclInspector, KnowsRankZeroBehindOthers) {
  const ProfileFiles files;
  const auto log = [](int rank) {
    return fmt::format(
        R"({{"header": {{"id": "0xabc", "rank": {}, "n_ranks": 8}}, "metadata": {{"dump_timestamp_us": 1748030377748202}}, "coll_perf": {{"coll": "AllGather", "coll_sn": 7, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 61}}}})"
        "\n",
        rank);
  };
  const ReadProfile read = read_files({files.write("a.log", log(3)), files.write("b.log", log(0))});
  std::vector<int> ranks;
  for (const ProfiledRank& rank : read.profile.ranks) ranks.push_back(rank.rank);
  EXPECT_THAT(ranks, testing::UnorderedElementsAre(0, 3));
}

/// Two nodes whose ranks have a communicator of their own each, and one over both.
TEST(NcclInspector, CommunicatorsAreThoseOfAllFiles) {
  const ProfileFiles files;
  const auto log = [](int rank, const std::vector<std::string>& ids) {
    std::string lines;
    for (const std::string& id : ids) {
      lines += fmt::format(
          R"({{"header": {{"id": "{}", "rank": {}, "n_ranks": 8}}, "metadata": {{"dump_timestamp_us": 1748030377748202}}, "coll_perf": {{"coll": "AllReduce", "coll_sn": 0, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 61}}}})"
          "\n",
          id, rank);
    }
    return lines;
  };
  const ReadProfile read = read_files(
      {files.write("a.log", log(0, {"0xa", "0xc"})), files.write("b.log", log(8, {"0xb", "0xc"}))});
  const auto group = [&](std::size_t rank, std::size_t kernel) {
    return read.profile.groups[read.profile.ranks.at(rank).exchanges.at(kernel).group];
  };
  EXPECT_EQ(group(0, 0), "communicator 0 of 8");
  EXPECT_EQ(group(1, 0), "communicator 2 of 8");
  EXPECT_EQ(group(0, 1), "communicator 1 of 8");
  EXPECT_EQ(group(1, 1), "communicator 1 of 8");
}

TEST(NcclInspector, SaysWhatIsOfAnotherTime) {
  const ProfileFiles files;
  const auto line = [](const char* at) {
    return fmt::format(
        R"({{"header": {{"id": "0xa", "rank": 0, "n_ranks": 8}}, "metadata": {{"dump_timestamp_us": {}}}, "coll_perf": {{"coll": "AllReduce", "coll_sn": 0, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 61}}}})"
        "\n",
        at);
  };
  const std::string text = line("1748030377748202") + line("1758030377748202") + line("61");
  const ReadProfile read = read_files({files.write("a.log", text)});
  EXPECT_EQ(read.profile.ranks.at(0).kernels.size(), 1U);
  EXPECT_THAT(read.profile.notes,
              testing::Contains("leaves out 2 collectives over a month from the first"));
}

TEST(NcclProfiler, IsReadWithBareNames) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("a.json",
                                                   R"([
{"name": "Group", "cat": "GROUP", "ph": "b", "id": 0, "pid": 1, "tid": 1, "ts": 10.0, "args": {"groupId": 0}},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 4, "pid": 1, "tid": 1, "ts": 100.5, "args": {"SeqNum": 2, "CommHash": 77, "Rank": 1, "Count": 1000, "Datatype": "ncclFloat32", "Stream": 0x4142e90}},
{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 4, "pid": 1, "tid": 1, "ts": 140.75},
)")});
  const ProfiledRank& rank = read.profile.ranks.at(0);
  EXPECT_EQ(rank.rank, 1);
  ASSERT_EQ(rank.kernels.size(), 1U);
  EXPECT_EQ(rank.kernels[0].kind, KernelKind::all_reduce);
  EXPECT_EQ(rank.kernels[0].length, 40'250'000);
  EXPECT_EQ(rank.exchanges[0].in_bytes, 4000);
  EXPECT_EQ(rank.exchanges[0].sequence, 2);
  EXPECT_EQ(rank.kernels[0].end(), 750'000) << "since the microsecond of the first end";
  EXPECT_EQ(read.profile.groups[rank.exchanges[0].group], "communicator 0");
}

TEST(NcclProfiler, LeavesOutTimesThatAreNone) {
  const ProfileFiles files;
  const auto event = [](const char* phase, int id, const char* at) {
    return fmt::format(
        R"({{"name": "Send", "cat": "P2P", "ph": "{}", "id": {}, "ts": {}, "args": {{}}}})", phase,
        id, at);
  };
  const ReadProfile read = read_files({files.write(
      "a.json", "[" + event("b", 1, "5") + "," + event("e", 1, "8") + "," + event("b", 2, "6") +
                    "," + event("e", 2, "nan") + "," + event("b", 3, "9") + "," +
                    event("e", 3, "7") + "," + event("b", 4, "\"x\"") + "]")});
  EXPECT_EQ(read.profile.ranks.at(0).kernels.size(), 1U);
  EXPECT_THAT(read.profile.notes,
              testing::ElementsAre("leaves out 3 kernels whose times are not times, first 'Send'"));
}

TEST(NcclProfiler, SaysWhatDidNotEnd) {
  const ProfileFiles files;
  const auto event = [](const char* phase, int id, int at, const char* args) {
    return fmt::format(
        R"({{"name": "Send", "cat": "P2P", "ph": "{}", "id": {}, "ts": {}, "args": {{"CommHash": {}, "Datatype": "ncclInt8"{}}}}})",
        phase, id, at, id, args);
  };
  const ReadProfile read = read_files({files.write(
      "a.json", "[" + event("b", 1, 5, R"(, "Count": 7)") + "," + event("b", 2, 6, "") + "," +
                    event("e", 2, 6, "") + "," + event("b", 3, 9, "") + "," + event("e", 4, 9, "") +
                    "," + event("e", 1, 8, "") + "]")});
  ASSERT_EQ(read.profile.ranks.size(), 1U);
  EXPECT_EQ(read.profile.ranks[0].rank, 0);
  const ProfiledRank& rank = read.profile.ranks[0];
  ASSERT_EQ(rank.kernels.size(), 2U);
  EXPECT_EQ(rank.kernels[0].length, 3 * us);
  EXPECT_EQ(rank.kernels[1].length, 0);
  EXPECT_EQ(rank.exchanges[static_cast<std::size_t>(rank.kernels[0].exchange)].in_bytes, 7);
  EXPECT_EQ(rank.exchanges[static_cast<std::size_t>(rank.kernels[1].exchange)].in_bytes, 0);
  EXPECT_THAT(read.profile.groups,
              testing::ElementsAre("communicator 0", "communicator 1", "communicator 2"));
  EXPECT_THAT(read.profile.notes, testing::Contains("1 collective did not end"));
}

TEST(MegatronLog, GivesStepsAndTimers) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write(
      "train.log",
      " [2026-01-01 00:00:00] iteration        1/     10 | consumed samples: 8 | elapsed time per "
      "iteration (ms): 1500.0 | learning rate: 1E-4 |\r\n"
      "(min, max) time across ranks (ms):\r\n"
      "    forward-backward ...............................: (1200.50, 1300.25)\r\n"
      " [2026-01-01 00:00:02] iteration        2/     10 | elapsed time per iteration (ms): 1400.0 "
      "|\r\n")});
  EXPECT_EQ(read.profile.ranks.at(0).steps.size(), 2U);
  ASSERT_EQ(read.profile.timers.count("forward-backward"), 1U);
  EXPECT_DOUBLE_EQ(read.profile.timers.at("forward-backward")[0].second, 1.30025);
  const std::string text = profile_text(ProfileReport(read), 5).text();
  EXPECT_THAT(text, HasSubstr("2 steps"));
  EXPECT_THAT(text, HasSubstr("forward-backward"));
  EXPECT_THAT(error_of_files({files.write("other.log", "hello\n")}),
              testing::AllOf(HasSubstr("of no profiler"), HasSubstr("nsys export --type sqlite")));
}

TEST(MegatronLog, HasStepsOfAnyTimeButNone) {
  const ProfileFiles files;
  std::string text = "    forward ...: (0.5, 0.5)\n";
  for (const char* ms : {"0.0", "0.5", "9999999.0", "10000000.0"}) {
    text += fmt::format("iteration 1/ 10 | elapsed time per iteration (ms): {} |\n", ms);
  }
  const ReadProfile read = read_files({files.write("train.log", text)});
  EXPECT_EQ(read.profile.ranks.at(0).steps.size(), 2U);
  EXPECT_EQ(read.profile.timers.count("forward"), 1U) << "its least time may be its largest";
}

TEST(MegatronLog, TakesNoLineForATimerThatLacksAPartOfOne) {
  const ProfileFiles files;
  std::string text = "iteration 1/ 10 | elapsed time per iteration (ms): 1500.0 |\n";
  for (const char* line :
       {"    forward : (1.0, 2.0)", "    forward ...: 1.0, 2.0", " ...: (1.0, 2.0)",
        "    forward ...: (2.0, 1.0)", "    for ward ...: (1.0, 2.0)", "    forward ...: (1.0)"}) {
    text += line + std::string("\n");
  }
  const ReadProfile read = read_files({files.write("train.log", text)});
  EXPECT_TRUE(read.profile.timers.empty());
  EXPECT_EQ(read.profile.bytes, std::ssize(text));
}

TEST(MegatronLog, IsReadWithUnderscores) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write(
      "train.log",
      "[2026-01-01 00:00:00][INFO][training:1609] -  iteration=       1/      10 | "
      "consumed_samples=         8 | elapsed_time_per_iteration_ms=1500.5 | lm loss=11.1 |\n"
      "(min, max) time across ranks (ms):\n"
      "    optimizer ......................................: (40.10, 41.20)\n")});
  ASSERT_EQ(read.profile.ranks.at(0).steps.size(), 1U);
  EXPECT_EQ(read.profile.ranks[0].steps[0].second, 1'500'500 * us);
  EXPECT_DOUBLE_EQ(read.profile.timers.at("optimizer").at(0).first, 0.0401);
}

}  // namespace
}  // namespace moesim
