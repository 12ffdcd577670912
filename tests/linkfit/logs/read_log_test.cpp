// SPDX-License-Identifier: Apache-2.0
// Logs and tables that are sound.
#include "sim/linkfit/logs/read_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

const std::string logs = MOESIM_ROOT "/tests/fixtures/logs/";

std::string refusal(const std::string& text, const LogChoice& choice) {
  return error_of([&] { parse_log(text, "a.log", choice); });
}

TEST(NcclTestsText, IsRead) {
  const Log log = read_log(logs + "alltoall-1.log", {});
  EXPECT_EQ(log.kind, "nccl-tests text");
  EXPECT_EQ(log.what, "alltoall, 8 ranks, inside a host");
  EXPECT_EQ(log.gpu, "Test GPU");
  EXPECT_EQ(log.library, "NCCL 22703, nccl-tests 2.19.6");
  EXPECT_EQ(log.date, "");
  EXPECT_TRUE(log.checked);
  ASSERT_EQ(log.samples.size(), 10u);
  EXPECT_EQ(log.samples[0].bytes, Bytes(896));
  EXPECT_DOUBLE_EQ(log.samples[0].time.value, 11.92e-6);
}

TEST(NcclTestsText, InPlaceTimesAreNotChecked) {
  LogChoice choice;
  choice.in_place = true;
  EXPECT_FALSE(read_log(logs + "alltoall-1.log", choice).checked);
}

TEST(NcclTestsText, SkipsWhatLaunchersPrintBetweenRows) {
  std::string text = read_file(logs + "alltoall-1.log");
  text.insert(text.find("        4096"), "node0: warning: something\n");
  EXPECT_EQ(parse_log(text, "a.log", {}).samples.size(), 10u);
}

TEST(NcclTestsText, SkipsLinesOfAnyBlanks) {
  std::string text = read_file(logs + "alltoall-1.log");
  text.insert(text.find("        4096"), "\f\n \t\v\r\n\n");
  EXPECT_EQ(parse_log(text, "a.log", {}).samples.size(), 10u);
}

TEST(NcclTestsText, HoldsWhatIsAskedFor) {
  const std::string text = read_file(logs + "alltoall-1.log");
  LogChoice choice;
  choice.ranks = 4;
  EXPECT_THAT(refusal(text, choice), testing::HasSubstr("is of 8 ranks, not of 4"));
  choice.ranks = 8;
  choice.collective = Collective::sendrecv;
  EXPECT_THAT(refusal(text, choice), testing::HasSubstr("holds alltoall, not sendrecv"));
  choice.collective.reset();
  choice.reach = LinkReach::fabric;
  EXPECT_THAT(refusal(text, choice), testing::HasSubstr("ran on one host"));
}

TEST(NcclTestsJson, IsRead) {
  const Log log = read_log(logs + "alltoall-4.json", {});
  EXPECT_EQ(log.kind, "nccl-tests JSON");
  EXPECT_EQ(log.what, "alltoall, 8 ranks, inside a host");
  EXPECT_EQ(log.library, "NCCL 22703");
  EXPECT_EQ(log.date, "2026-01-02 03:04:05");
  EXPECT_EQ(log.samples.size(), 10u);
  EXPECT_EQ(log.samples[0].bytes, Bytes(896));
}

TEST(NcclTestsJson, InPlaceTimesAreNotChecked) {
  LogChoice choice;
  EXPECT_TRUE(read_log(logs + "alltoall-4.json", choice).checked);
  choice.in_place = true;
  EXPECT_FALSE(read_log(logs + "alltoall-4.json", choice).checked);
}

TEST(NcclTestsJson, MayBeSeveralInAFile) {
  const std::string one = read_file(logs + "alltoall-4.json");
  for (const std::string& text :
       {one + "\n" + one, "[" + one + ",\n" + one + "]", "mpirun: a warning\n" + one + one}) {
    const Log log = parse_log(text, "a.log", {});
    EXPECT_EQ(log.what, "alltoall, 8 ranks, inside a host");
    EXPECT_EQ(log.samples.size(), 20u);
    EXPECT_EQ(log.runs, 2);
  }
  EXPECT_EQ(parse_log("mpirun: a warning\n" + one, "a.log", {}).samples.size(), 10u);
  EXPECT_THAT(refusal("note\n" + one.substr(0, one.size() - 20), {}),
              testing::HasSubstr("hint: run the test to its end"));
}

TEST(NcclTestsJson, HasOneOfTwoHalves) {
  std::string text = read_file(logs + "alltoall-4.json");
  const std::string key = "\"out_of_place\":{\"time\":";
  for (auto at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    const std::size_t begin = at + key.size();
    text.replace(begin, text.find(',', begin) - begin, "null");
  }
  EXPECT_THAT(refusal(text, {}), testing::HasSubstr("has no out-of-place times\nhint: --in-place"));
  LogChoice choice;
  choice.in_place = true;
  EXPECT_EQ(parse_log(text, "a.log", choice).samples.size(), 10u);
  std::string cpu = read_file(logs + "alltoall-4.json");
  cpu.insert(cpu.find("\"time\":"), "\"cpu_time\":3.5,");
  EXPECT_THAT(refusal(cpu, {}), testing::HasSubstr("what the CPU took to launch"));
}

TEST(NcclTestsJson, RefusesARankThatIsNone) {
  const std::string text = read_file(logs + "alltoall-4.json");
  for (const char* rank : {"-1", "16777216"}) {
    std::string other = text;
    const std::size_t at = other.find("\"rank\":") + 7;
    other.replace(at, other.find_first_of(",}", at) - at, rank);
    EXPECT_THAT(refusal(other, {}), testing::HasSubstr("has a rank that is none")) << rank;
  }
}

TEST(NcclTestsJson, RefusesWrongResults) {
  std::string text = read_file(logs + "alltoall-4.json");
  const std::size_t bounds = text.find("\"out_of_bounds\"");
  const std::size_t at = text.find("\"count\":", bounds) + 8;
  text.replace(at, text.find_first_of(",}", at) - at, "1");
  EXPECT_THAT(refusal(text, {}), testing::HasSubstr("the test found wrong results"));
}

// Under MPI with one GPU per process each is listed.
TEST(NcclTestsJson, CountsTheProcesses) {
  std::string text = read_file(logs + "alltoall-4.json");
  text.replace(text.find("\"ngpus\":8"), 9, "\"ngpus\":1");
  const std::size_t begin = text.find("[{\"rank\"") + 1;
  std::string device = text.substr(begin, text.find("]", begin) - begin) + ",";
  for (int i = 1; i < 8; ++i) {
    for (const char* key : {"\"rank\":", "\"device\":"}) {
      device[device.find(key) + std::string(key).size()] = static_cast<char>('0' + i);
    }
    text.insert(begin, device);
  }
  EXPECT_EQ(parse_log(text, "a.json", {}).what, "alltoall, 8 ranks, inside a host");
}

TEST(LogTables, OfAiconfiguratorCountElements) {
  const auto read = [](const std::string& type) {
    const std::string row = ",2.2,H100,alltoall,NCCL," + type + ",8,";
    return parse_log(
        "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
        "T" +
            row + "1024,0.02\nT" + row + "2048,0.03\n",
        "a.csv", {});
  };
  const Log log = read("half");
  EXPECT_EQ(log.kind, "aiconfigurator NCCL table");
  EXPECT_EQ(log.gpu, "H100");
  EXPECT_EQ(log.library, "NCCL 2.2");
  EXPECT_EQ(log.what, "alltoall, 8 ranks, inside a host");
  EXPECT_EQ(log.samples.at(0).bytes, Bytes(2 * 1024 / 8 * 7));
  EXPECT_DOUBLE_EQ(log.samples[0].time.value, 20e-6);
  EXPECT_EQ(read("bfloat16").samples[0].bytes, Bytes(2 * 1024 / 8 * 7));
  EXPECT_EQ(read("int8").samples[0].bytes, Bytes(1024 / 8 * 7));
  EXPECT_EQ(read("float").samples[0].bytes, Bytes(4 * 1024 / 8 * 7));
  EXPECT_THROW(read("int5"), Error);
}

TEST(LogTables, OfPplxHaveAColumnPerNumberOfRanks) {
  const std::string text =
      "tokens_per_gpu,op,EP8,EP16\n128,Torch AlltoAll,10,20\n128,other,1,1\n"
      "256,Torch AlltoAll,20,40\n";
  LogChoice choice;
  choice.ranks = 16;
  const Log log = parse_log(text, "a.csv", choice);
  EXPECT_EQ(log.kind, "pplx-kernels table");
  EXPECT_EQ(log.gpu, "NVIDIA H100");
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 2 hosts");
  ASSERT_EQ(log.samples.size(), 2U);
  EXPECT_EQ(log.samples[0].bytes, Bytes(128 * 256 * 7392 / 2));
  EXPECT_DOUBLE_EQ(log.samples[0].time.value, 20e-6);
  EXPECT_NE(refusal(text, {}).find("has a column per number of ranks"), std::string::npos);
  choice.ranks = 32;
  EXPECT_NE(refusal(text, choice).find("has no column EP32\nhint: columns: tokens_per_gpu, op"),
            std::string::npos);
}

TEST(LogTables, OfVidurHaveASizeInBytes) {
  const std::string names = "collective,num_workers,devices_per_node,size,time_stats.x.median\n";
  const std::string text =
      "collective,num_workers,devices_per_node,size,time_stats.all_reduce."
      "median\nall_reduce,8,4,1,0.02\nall_reduce,8,4,1024,0.03\n";
  const Log log = parse_log(text, "a.csv", {});
  EXPECT_EQ(log.kind, "vidur network profile");
  EXPECT_EQ(log.what, "all_reduce, 8 ranks, between 2 hosts");
  EXPECT_EQ(log.samples.size(), 1U) << "one byte is none on a link";
  EXPECT_NE(refusal(names + "x,8,4,1,0.02\n", {}).find("unknown collective 'x'"),
            std::string::npos);
}

/// 4 ranks of nodes of 8, and 12.
TEST(LogTables, AHostThatIsNotFullIsOne) {
  LogChoice choice;
  choice.ranks = 4;
  const Log few = parse_log("tokens_per_gpu,op,EP4\n128,Torch AlltoAll,10\n256,Torch AlltoAll,20\n",
                            "a.csv", choice);
  EXPECT_EQ(few.what, "alltoall, 4 ranks, inside a host");
  const Log more = parse_log(
      "collective,num_workers,devices_per_node,size,time_stats.all_reduce.median\n"
      "all_reduce,12,8,1048576,0.02\nall_reduce,12,8,2097152,0.03\n",
      "a.csv", {});
  EXPECT_EQ(more.what, "all_reduce, 12 ranks, between 2 hosts");
}

TEST(LogTables, HaveNoMoreHostsThanRanks) {
  EXPECT_NE(refusal("size,time_us,collective,ranks,hosts\n1048576,100,all_reduce,4,8\n", {})
                .find("a.log:2: error: 4 ranks cannot run on 8 hosts"),
            std::string::npos);
}

TEST(LogTables, MayBeRowsOfNcclTestsBetweenSeparators) {
  LogChoice choice;
  choice.collective = Collective::alltoall;
  choice.ranks = 16;
  choice.hosts = 2;
  const auto read = [&](const std::string& text) { return parse_log(text, "a.csv", choice); };
  const std::string rows = "1048576,100,10.49,9.83,0\n2097152,150,13.98,13.11,0\n";
  const Log log = read("size (B),time (us),algbw (GB/s),busbw (GB/s),#wrong\n" + rows);
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 2 hosts");
  ASSERT_EQ(log.samples.size(), 2U);
  EXPECT_DOUBLE_EQ(log.samples[1].time.value, 150e-6);
  EXPECT_DOUBLE_EQ(read("msg_size;latency_ms\n1048576;0.1\n").samples.at(0).time.value, 1e-4);
  EXPECT_EQ(read("| size | time (us) |\n|---|--:|\n\n| 1048576 | 100 |\n| 2097152 | 150 |\n")
                .samples.size(),
            2U);
  // A number and a time of each row do not make it a log's export.
  EXPECT_EQ(read("line,size,time\n1,1048576,100\n2,2097152,150\n").samples.size(), 2U);
  EXPECT_THAT(
      refusal("size,time,algbw\n1048576,0.1,10.49\n", choice),
      testing::HasSubstr("1048576 bytes in 0.1 us are 10485.76 GB/s, but 'algbw' is 10.49"));
  EXPECT_THAT(refusal("size,time,wrong\n1048576,100,3\n", choice),
              testing::HasSubstr("'wrong' is 3"));
  EXPECT_THAT(refusal("size,time\n1,2\n", {}), testing::HasSubstr("--ranks N says so"));
}

TEST(LogTables, WithTimesOfNoUnitAreThoseOfSomeLink) {
  LogChoice choice;
  choice.collective = Collective::alltoall;
  choice.ranks = 16;
  choice.hosts = 2;
  EXPECT_EQ(parse_log("size,time\n1048576,100\n", "a.csv", choice).samples.size(), 1U);
  EXPECT_THAT(refusal("size,time\n1048576,0.1\n", choice),
              testing::HasSubstr("are 10486 GB/s: 'time' is in another unit"));
  EXPECT_EQ(parse_log("size,time_us\n1048576,0.1\n", "a.csv", choice).samples.size(), 1U)
      << "said, not assumed";
}

TEST(LogTables, OfOtherColumnsAreRefused) {
  std::string names = "size,collective";
  EXPECT_NE(refusal(names + "\n1,2\n", {}).find("of no known table: size, collective\n"),
            std::string::npos);
  for (int i = 0; i < 28; ++i) names += ",c" + std::to_string(i);
  EXPECT_NE(refusal(names + "\n", {}).find(", c27\n"), std::string::npos);
  EXPECT_NE(refusal(names + ",c28\n", {}).find(", c27, ...\n"), std::string::npos);
  EXPECT_NE(refusal("mfu,x\n", {}).find("holds times of GEMMs"), std::string::npos);
}

TEST(LogTables, ThatLackAColumnAreOfNoKnownKind) {
  for (const std::vector<std::string>& columns : std::vector<std::vector<std::string>>{
           {"num_workers", "devices_per_node", "size", "collective"},
           {"message_size", "nccl_dtype", "num_gpus", "op_name", "latency"},
           {"tokens_per_gpu", "op"}}) {
    for (const std::string& without : columns) {
      std::string names = "other";
      for (const std::string& name : columns) names += name == without ? "" : "," + name;
      EXPECT_THAT(refusal(names + "\n", {}), testing::HasSubstr("of no known table")) << names;
    }
  }
}

class PublishedTable : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(root)) GTEST_SKIP() << root << " is absent";
  }
  static constexpr const char* root = MOESIM_SHARED "/calibration";
  static Log read(const std::string& file, Collective collective, int ranks,
                  std::optional<LinkReach> reach = {}) {
    LogChoice choice;
    choice.collective = collective;
    choice.ranks = ranks;
    choice.reach = reach;
    return read_log(std::string(root) + "/" + file, choice);
  }
};

TEST_F(PublishedTable, CountsElementsWhereTheTableDoes) {
  const Log log = read("aiconfigurator/nccl_h100_sxm_2.29.2.csv", Collective::alltoall, 8);
  // 512 MiB in all, 7/8 of it on the link, twice (half and int8): 315 GB/s in the table's notes.
  std::vector<double> rates;
  for (const Sample& s : log.samples) {
    if (s.bytes == Bytes(448 << 20))
      rates.push_back((static_cast<double>(s.bytes.value) / s.time.value) / 1e9);
  }
  EXPECT_THAT(rates, testing::Each(testing::DoubleNear(315, 4)));
  EXPECT_EQ(rates.size(), 2u);
  EXPECT_EQ(log.library, "NCCL 2.29.2");
}

TEST_F(PublishedTable, IsUnpackedAndDividedByReach) {
  const std::string file = "vidur_network/h100_dgx_send_recv.csv.gz";
  EXPECT_EQ(read(file, Collective::sendrecv, 2, LinkReach::fabric).samples.size(), 994u);
  EXPECT_EQ(read(file, Collective::sendrecv, 2, LinkReach::host).what,
            "sendrecv, 2 ranks, inside a host");
}

TEST_F(PublishedTable, GivesTheBandwidthBetweenNodesThatItsNotesDo) {
  const Log log = read("published/pplx_kernels_published_h100_us.csv", Collective::alltoall, 16);
  ASSERT_EQ(log.samples.size(), 2u);
  EXPECT_NEAR(static_cast<double>(log.samples[1].bytes.value) / log.samples[1].time.value / 1e9,
              37.7, 0.1);
}

}  // namespace
}  // namespace moesim
