// SPDX-License-Identifier: Apache-2.0
// Exchanges of a plan as matrix files of alltoallv_perf.
#include "sim/linkfit/nccl_tests_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sim/base/files.h"
#include "sim/plan/text.h"
#include "tests/error_of.h"
#include "tests/linkfit/golden.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;

// Four GPUs in two communicators of two, their counts and rows; then one exchange of all four.
constexpr const char* four_gpus = R"(moesim-plan 2
name four
gpus 4

op 0 side-exchange label counts ep layer 2 forward dispatch exchange 0,1 unit 4
  1 -> 0:1
op 1 side-exchange label counts ep layer 2 forward dispatch exchange 2,3 unit 4
op 2 token-exchange label dispatch ep layer 2 forward dispatch exchange 0,1 unit 100
  0 -> 0:7 1:3
  1 -> 0:1
op 3 token-exchange label dispatch ep layer 2 forward dispatch exchange 2,3 unit 64
  2 -> 3:2
op 4 token-exchange label combine ep layer 2 forward combine exchange 0-3 unit 16
  0 -> 3:1
  1 -> 1:5
  2 -> 3:4
op 5 side-exchange label "next counts" ep layer 3 forward dispatch exchange 0-3 unit 4
  1 -> 1:5
)";

Plan plan() { return parse_plan(four_gpus, "four.plan"); }

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "moesim-export-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }

 private:
  fs::path path_;
};

std::string refusal(const fs::path& folder) {
  return error_of([&] { write_nccl_tests(plan(), folder.string()); });
}

TEST(NcclTestsExport, MergesTheCommunicatorsOfAPhase) {
  const auto exchanges = nccl_tests_exchanges(plan());
  ASSERT_EQ(exchanges.size(), 4u);
  EXPECT_EQ(exchanges[1].name, "0002-layer2-forward-dispatch");
  EXPECT_EQ(exchanges[1].ops, (std::vector{OpId(2), OpId(3)}));
  EXPECT_EQ(exchanges[1].participants, (std::vector{GpuId(0), GpuId(1), GpuId(2), GpuId(3)}));
  EXPECT_EQ(exchanges[1].matrix, "0 304 0 0\n112 0 0 0\n0 0 0 128\n0 0 0 0\n");
}

TEST(NcclTestsExport, CountsWhatLeavesAGpuAndWhatIsWritten) {
  const auto exchanges = nccl_tests_exchanges(plan());
  EXPECT_EQ(exchanges[1].bytes, Bytes(300 + 100 + 128));
  EXPECT_EQ(exchanges[1].written, Bytes(304 + 112 + 128));
  EXPECT_EQ(exchanges[1].largest, Bytes(304));
  EXPECT_EQ(exchanges[2].largest, Bytes(16 + 64)) << "the most is received, by GPU 3";
}

TEST(NcclTestsExport, NoEntryIsRoundedDownToNothing) {
  EXPECT_EQ(nccl_tests_exchanges(plan())[0].matrix, "0 0 0 0\n16 0 0 0\n0 0 0 0\n0 0 0 0\n");
}

TEST(NcclTestsExport, AnExchangeThatMovesNothingHasNoMatrix) {
  const auto last = nccl_tests_exchanges(plan()).back();
  EXPECT_EQ(last.name, "0004-layer3-forward-dispatch-next-counts");
  EXPECT_EQ(last.matrix, "");
  EXPECT_EQ(last.bytes, Bytes(0));
}

TEST(NcclTestsExport, WritesTheseFiles) {
  const Folder folder;
  EXPECT_EQ(write_nccl_tests(plan(), (folder / "out").string()), 3);
  std::string all;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "out")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    all += "== " + file.filename().string() + "\n" + read_file(file.string());
  }
  expect_golden("four-gpus.txt", all);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"out"}) << "nothing temporary is left";
}

TEST(NcclTestsExport, ScriptRunsTheTestOnEveryMatrix) {
  const Folder folder;
  write_nccl_tests(plan(), (folder / "out").string());
  std::ofstream(folder / "alltoallv_perf")
      << "#!/bin/sh\necho \"$@\"\ncat \"$NCCL_TESTS_ALLTOALLV_MATRIX_FILE\"\n";
  fs::permissions(folder / "alltoallv_perf", fs::perms::owner_all);
  const std::string command = "LAUNCH= GPUS=4 NCCL_TESTS=" + (folder / "").string() + " bash " +
                              (folder / "out/run.sh").string() + " " + (folder / "logs").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file((folder / "logs/0003-layer2-forward-combine.log").string()),
            "-b 80 -e 80 -d uint8 -a 3 -g 4 -w 5 -n 20\n"
            "0 0 0 16\n0 0 0 0\n0 0 0 64\n0 0 0 0\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "logs"), {}), 3);
}

TEST(NcclTestsExport, ReplacesAnEarlierExport) {
  const Folder folder;
  write_nccl_tests(plan(), (folder / "out").string());
  Plan shorter = plan();
  shorter.ops.resize(2);
  EXPECT_EQ(write_nccl_tests(shorter, (folder / "out/").string()), 1);
  EXPECT_FALSE(fs::exists(folder / "out/0002-layer2-forward-dispatch.txt"));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"out"});
}

TEST(NcclTestsExport, RemovesNothingOutsideOfAnEarlierExport) {
  const Folder folder;
  write_nccl_tests(plan(), (folder / "out").string());
  std::ofstream(folder / "kept") << "mine";
  fs::create_symlink("../kept", folder / "out/link");
  std::string index = R"({"format": "moesim-nccl-tests 1", "exchanges": [{"file": "../kept"})";
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    index += R"(, {"file": ")" + entry.path().filename().string() + R"("})";
  }
  std::ofstream(folder / "out/index.json") << index << "]}";
  EXPECT_EQ(write_nccl_tests(plan(), (folder / "out").string()), 3);
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder / "out/link")));
  EXPECT_EQ(read_file((folder / "kept").string()), "mine");
}

TEST(NcclTestsExport, TakesAnEmptyFolder) {
  const Folder folder;
  fs::create_directory(folder / "out");
  EXPECT_EQ(write_nccl_tests(plan(), (folder / "out").string()), 3);
}

TEST(NcclTestsExport, RefusesWhatItDidNotWrite) {
  const Folder folder;
  fs::create_directory(folder / "out");
  std::ofstream(folder / "out/notes.txt") << "mine";
  EXPECT_THAT(refusal(folder / "out"), HasSubstr("is not empty and holds no export"));
  fs::remove(folder / "out/notes.txt");
  write_nccl_tests(plan(), (folder / "out").string());
  std::ofstream(folder / "out/notes.txt") << "mine";
  EXPECT_THAT(refusal(folder / "out"), HasSubstr("holds 'notes.txt', which no export wrote"));
  std::ofstream(folder / "out/index.json") << "{\"format\": 7}";
  EXPECT_THAT(refusal(folder / "out"), HasSubstr("not of this kind of export"));
  EXPECT_EQ(read_file((folder / "out/notes.txt").string()), "mine");
  EXPECT_THAT(refusal(folder / "out/notes.txt"), HasSubstr("is not a folder"));
  EXPECT_THAT(refusal(folder / "no/out"), HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace moesim
