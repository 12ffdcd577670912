// SPDX-License-Identifier: Apache-2.0
// What a trace says of the recording that it was made of, which must stay what it was meanwhile.
#include <gmock/gmock.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "sim/import/input_hash.h"
#include "sim/trace/npy.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

/// Sequences of one token each, one choice in one layer.
ImportOptions options_of_ids(const ScratchFolder& scratch, const std::string& ids) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  write_bytes(scratch / "in/ids.npy",
              npy_header({'i', 1}, std::vector<std::int64_t>{tokens, 1, 1}) + ids);
  write_bytes(scratch / "in/lengths.npy", npy_header({'u', 1}, std::vector<std::int64_t>{tokens}) +
                                              std::string(ids.size(), '\1'));
  auto options = options_of(scratch / "in", scratch / "out");
  options.top_k = 1, options.layers = {1}, options.order = "tlk";
  return options;
}

TEST(ImportedTraces, SayWhatTheyWereMadeOf) {
  const ScratchFolder scratch;
  const auto options = options_of_ids(scratch, "\3\4\xff\5");
  const std::string report = import_trace("npy", options).report;
  EXPECT_THAT(report, ::testing::StartsWith("tokens     3\nsequences  3\nlayers     1 "));
  EXPECT_THAT(report, ::testing::EndsWith("dropped    1 row: of padding (-1)\n"));
  const Json of_padding = Json::parse(RoutingTrace::open(options.output).info().provenance);
  EXPECT_EQ(of_padding["imported_from"], "npy");
  EXPECT_EQ(of_padding["inputs"].size(), 2U);
  EXPECT_EQ(of_padding["inputs"][0]["file"], "ids.npy");
  EXPECT_EQ(of_padding["dropped_rows"], (Json{{"of padding (-1)", 1}}));
  fs::remove_all(options.output);
  auto in_steps = options_of_ids(scratch, "\3\4\5");
  in_steps.step_tokens = 2;
  EXPECT_THAT(import_trace("npy", in_steps).report,
              ::testing::StartsWith("steps      2\ntokens     3\nsequences  3\n"));
  const Json whole = Json::parse(RoutingTrace::open(options.output).info().provenance);
  EXPECT_FALSE(whole.contains("dropped_rows"));
}

TEST(ImportedTraces, AreNotOfHiddenFiles) {
  const ScratchFolder scratch;
  const auto options = options_of_ids(scratch, "\3\4\5");
  for (const char* name : {".DS_Store", "._ids.npy", ".git/ids.npy"}) {
    write_bytes(scratch / ("in/" + std::string(name)), "PK\3\4");
  }
  import_trace("npy", options);
  const Json provenance = Json::parse(RoutingTrace::open(options.output).info().provenance);
  ASSERT_EQ(provenance["inputs"].size(), 2U);
  EXPECT_EQ(provenance["inputs"][0]["file"], "ids.npy");
  EXPECT_EQ(provenance["inputs"][1]["file"], "lengths.npy");
  EXPECT_EQ(input_files({scratch / "in"}).size(), 2U);
  EXPECT_EQ(input_files({scratch / "in/.DS_Store"}).size(), 1U) << "which is asked for";
}

TEST(ImportedTraces, AreOfFilesThatStayWhatTheyWere) {
  const ScratchFolder scratch;
  const auto options = options_of_ids(scratch, "\3\4\5");
  const std::string path = scratch / "in/ids.npy";
  const auto import_while_it_changes = [&] {
    try {
      import_trace("npy", options, [&](double) {
        write_bytes(path, read_bytes(path));
        fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
      });
    } catch (const Error& e) {
      fmt::print(stderr, "{}", e.what());
      ::_exit(fs::exists(options.output) ? 3 : 2);  // static folders are the parent's
    }
    ::_exit(4);
  };
  EXPECT_EXIT(import_while_it_changes(), ::testing::ExitedWithCode(2),
              "ids.npy: error: was changed while it was read");
}

TEST(InputHashes, AreOfAllFilesInFoldersByTheirNames) {
  const ScratchFolder scratch;
  write_bytes(scratch / "in/b", "x");
  write_bytes(scratch / "in/a/c", "x");
  write_bytes(scratch / "d", "y");
  const std::string hashes = input_hashes({scratch / "d", scratch / "in"});
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = hashes.find("\"file\":\"", at)) != std::string::npos; at += 8) {
    names.push_back(hashes.substr(at + 8, hashes.find('"', at + 8) - at - 8));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("d", "a/c", "b"));
  EXPECT_THAT(input_files({scratch / "in", scratch / "d"}),
              ::testing::ElementsAre(scratch / "in/b", scratch / "d"));
  write_bytes(scratch / "in/a/c", "z");
  EXPECT_NE(input_hashes({scratch / "d", scratch / "in"}), hashes);
}

}  // namespace
}  // namespace moesim
